// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that is not pinned: what the device says of it, advice about it, every
 * operation with no page there, and what becomes of work when there is no memory
 * at all, or when the region goes.
 *
 *     odp DEVICE[:PORT] DEVICE[:PORT] [refused]
 *
 * With `refused`, only what becomes of memory that is waited for when another message is refused: where a message may be
 * asked for again, one that waits has its peer pause, and no other test here has patience for that.
 *
 * End `a` asks, end `b` answers.
 */

#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BYTES (256u << 10)
#define PAGE 4096u
/* Not at the start of a page, and not a whole number of them. */
#define AT 100u
#define LENGTH (150000u)
#define ROUNDS 8
#define GONE_ROUNDS 64

/* Of libibverbs, for providers: librxe does not offer ibv_advise_mr(). */
int ibv_cmd_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice,
		      uint32_t flags, struct ibv_sge *list, uint32_t count);

static struct device devices[2];
static struct end a, b;

/* Memory of one end. */
struct memory {
	uint8_t *bytes;
	struct ibv_mr *mr;
};

static const struct end_options options = {
	.type = IBV_QPT_RC,
	.send_depth = BENCH_DEPTH,
	.recv_depth = BENCH_DEPTH,
	.sges = 2,
};

static struct ibv_mr *reg(struct device *device, void *bytes, size_t size,
			  int access)
{
	struct ibv_mr *mr = ibv_reg_mr(device->pd, bytes, size,
				       access | IBV_ACCESS_ON_DEMAND);

	check(mr, "reg_mr on demand: %m");
	return mr;
}

static struct memory memory_create(struct device *device, int access)
{
	struct memory memory;

	memory.bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(memory.bytes != MAP_FAILED, "mmap: %m");
	memory.mr = reg(device, memory.bytes, BYTES, access);
	return memory;
}

static void memory_destroy(struct memory *memory)
{
	check(!ibv_dereg_mr(memory->mr), "dereg_mr: %m");
	munmap(memory->bytes, BYTES);
}

static struct ibv_sge sge_of(const struct memory *memory, uint32_t length)
{
	return (struct ibv_sge){ (uintptr_t)memory->bytes + AT, length,
				 memory->mr->lkey };
}

/* Both ends, with no patience at all: neither retries nor timeouts. */
static void connect_ends(void)
{
	struct path_options path = default_path;

	path.retries = 0;
	path.rnr_retries = 0;
	path.timeout = 0;
	end_create(&a, &devices[0], &options);
	end_create(&b, &devices[1], &options);
	end_connect(&a, &b, &path);
}

static void disconnect_ends(void)
{
	end_destroy(&a);
	end_destroy(&b);
}

static void check_caps(struct device *device)
{
	const uint32_t ud = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
			    IBV_ODP_SUPPORT_SRQ_RECV;
	const uint32_t uc = ud | IBV_ODP_SUPPORT_WRITE;
	const uint32_t rc = uc | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
	const uint32_t known = (IBV_ODP_SUPPORT_SRQ_RECV << 1) - 1;
	struct ibv_device_attr_ex attr;
	const struct ibv_odp_caps *caps = &attr.odp_caps;

	check(!ibv_query_device_ex(device->context, NULL, &attr),
	      "query_device_ex");
	check(caps->general_caps == IBV_ODP_SUPPORT, "general caps %llx",
	      (unsigned long long)caps->general_caps);
	check((caps->per_transport_caps.rc_odp_caps & known) == rc &&
		      caps->per_transport_caps.uc_odp_caps == uc &&
		      caps->per_transport_caps.ud_odp_caps == ud,
	      "caps of the transports: rc %x, uc %x, ud %x",
	      caps->per_transport_caps.rc_odp_caps,
	      caps->per_transport_caps.uc_odp_caps,
	      caps->per_transport_caps.ud_odp_caps);
	check(!ibv_reg_mr(device->pd, NULL, SIZE_MAX,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND),
	      "all memory of a process is a region");
}

/* ---- advice ---- */

static int advise(struct ibv_pd *pd, enum ibv_advise_mr_advice advice,
		  bool flush, const void *addr, uint32_t length, uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)addr, length, lkey };

	return ibv_cmd_advise_mr(pd, advice,
				 flush ? IBV_ADVISE_MR_FLAG_FLUSH : 0, &sge, 1);
}

static int resident(const struct memory *memory)
{
	uint8_t pages[BYTES / PAGE];
	int count = 0;

	check(!mincore(memory->bytes, BYTES, pages), "mincore: %m");
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++)
		count += pages[i] & 1;
	return count;
}

static void expect_advice(const char *what, int result, int error)
{
	if (result < 0)
		result = errno;
	check(result == error, "advice, %s: %s, not %s", what,
	      strerror(result), strerror(error));
}

static void test_advice(struct device *device)
{
	struct ibv_pd *pd = device->pd;
	struct memory memory = memory_create(device, ALL_ACCESS);
	struct memory frozen = memory_create(device, IBV_ACCESS_REMOTE_READ);
	struct ibv_mr *pinned = ibv_reg_mr(pd, memory.bytes, PAGE, 0);
	uint32_t key = memory.mr->lkey;
	uint8_t *bytes = memory.bytes;
	int before;

	check(pinned, "reg_mr: %m");
	for (int flush = 0; flush < 2; flush++) {
		check(!madvise(bytes + PAGE, BYTES - PAGE, MADV_DONTNEED),
		      "madvise: %m");
		before = resident(&memory);
		expect_advice("no fault",
			      advise(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
				     flush, bytes, BYTES, key), 0);
		check(resident(&memory) == before, "advice made pages come");
		expect_advice("write",
			      advise(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				     flush, bytes + AT, BYTES - AT, key), 0);
		if (flush)
			check(resident(&memory) == BYTES / PAGE,
			      "advice made %d pages come", resident(&memory));
		expect_advice("read",
			      advise(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, flush,
				     bytes, BYTES, key), 0);
		expect_advice("nothing",
			      advise(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, flush,
				     bytes, 0, key), 0);
		expect_advice("a pinned region",
			      advise(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, flush,
				     bytes, PAGE, pinned->lkey), EINVAL);
		expect_advice("no key",
			      advise(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, flush,
				     bytes, PAGE, key ^ 1), EINVAL);
		expect_advice("beyond the end",
			      advise(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, flush,
				     bytes + 1, BYTES, key), EINVAL);
		expect_advice("no right",
			      advise(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				     flush, frozen.bytes, PAGE,
				     frozen.mr->lkey), EPERM);
	}
	check(!munmap(frozen.bytes, BYTES), "munmap: %m");
	expect_advice("no memory",
		      advise(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, true,
			     frozen.bytes, BYTES, frozen.mr->lkey), EFAULT);
	expect_advice("no memory, nobody asks",
		      advise(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, false,
			     frozen.bytes, BYTES, frozen.mr->lkey), 0);
	check(!ibv_dereg_mr(frozen.mr), "dereg_mr: %m");
	check(!ibv_dereg_mr(pinned), "dereg_mr: %m");
	memory_destroy(&memory);
}

/* ---- operations ---- */

static const struct {
	const char *name;
	enum ibv_wr_opcode op;
	bool fetches;
	bool receives;
} ops[] = {
	{ "SEND", IBV_WR_SEND, false, true },
	{ "RDMA WRITE", IBV_WR_RDMA_WRITE, false, false },
	{ "RDMA WRITE with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, false, true },
	{ "RDMA READ", IBV_WR_RDMA_READ, true, false },
	{ "FETCH ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, true, false },
};

static void post(size_t i, const struct memory *from, const struct memory *to)
{
	bool atomic = ops[i].op == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge mine = sge_of(from, atomic ? 8 : LENGTH);
	struct ibv_sge theirs = sge_of(to, LENGTH);
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &theirs,
				    .num_sge = 1 };
	struct ibv_send_wr wr = {
		.wr_id = 2,
		.sg_list = &mine,
		.num_sge = 1,
		.opcode = ops[i].op,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (atomic) {
		wr.wr.atomic.remote_addr = (uintptr_t)to->bytes + PAGE;
		wr.wr.atomic.rkey = to->mr->rkey;
		wr.wr.atomic.compare_add = 5;
	} else if (ops[i].op != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = (uintptr_t)to->bytes + AT;
		wr.wr.rdma.rkey = to->mr->rkey;
	}
	if (ops[i].receives)
		post_recv(&b, &recv);
	post_send(&a, &wr);
}

/* Every operation while no page of what it writes is there. */
static void test_absent(void)
{
	struct memory from = memory_create(&devices[0], ALL_ACCESS);
	struct memory to = memory_create(&devices[1], ALL_ACCESS);

	connect_ends();
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
			bool fetches = ops[i].fetches;
			struct memory *source = fetches ? &to : &from;
			struct memory *target = fetches ? &from : &to;
			uint64_t sum = 1000 + round, *word;

			memset(source->bytes, round + i, BYTES);
			word = (uint64_t *)(source->bytes + PAGE);
			if (ops[i].op == IBV_WR_ATOMIC_FETCH_AND_ADD)
				*word = sum;
			check(!madvise(target->bytes, BYTES, MADV_DONTNEED),
			      "madvise: %m");
			post(i, &from, &to);
			expect(ops[i].name, a.send_cq, 2, IBV_WC_SUCCESS);
			if (ops[i].receives)
				expect(ops[i].name, b.recv_cq, 1,
				       IBV_WC_SUCCESS);
			if (ops[i].op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
				uint64_t old;

				memcpy(&old, target->bytes + AT, sizeof(old));
				check(old == sum && *word == sum + 5,
				      "FETCH ADD: %llu, then %llu",
				      (unsigned long long)old,
				      (unsigned long long)*word);
				continue;
			}
			check(!memcmp(source->bytes + AT, target->bytes + AT,
				      LENGTH),
			      "%s: wrong bytes", ops[i].name);
			check(!target->bytes[AT - 1] &&
				      !target->bytes[AT + LENGTH],
			      "%s: too many bytes", ops[i].name);
		}
	}
	disconnect_ends();
	memory_destroy(&from);
	memory_destroy(&to);
}

/* ---- no memory ---- */

/* What each operation ends with if `mine` or theirs is not to be had. */
static void fails(size_t i, bool mine, bool frozen)
{
	struct memory from = memory_create(&devices[0], ALL_ACCESS);
	struct memory to = memory_create(&devices[1], ALL_ACCESS);
	struct memory *bad = mine ? &from : &to;
	enum ibv_wc_status sent = IBV_WC_LOC_PROT_ERR;
	bool receive_fails = !mine && ops[i].op == IBV_WR_SEND;

	if (!mine)
		sent = receive_fails ? IBV_WC_REM_OP_ERR :
				       IBV_WC_REM_ACCESS_ERR;
	memset(from.bytes, 1, BYTES);
	memset(to.bytes, 2, BYTES);
	if (frozen)
		check(!mprotect(bad->bytes, BYTES, PROT_READ), "mprotect: %m");
	else
		check(!munmap(bad->bytes, BYTES), "munmap: %m");
	connect_ends();
	post(i, &from, &to);
	expect(ops[i].name, a.send_cq, 2, sent);
	if (ops[i].receives)
		expect(ops[i].name, b.recv_cq, 1,
		       receive_fails ? IBV_WC_LOC_PROT_ERR :
				       IBV_WC_WR_FLUSH_ERR);
	disconnect_ends();
	if (frozen)
		check(!mprotect(bad->bytes, BYTES, PROT_READ | PROT_WRITE),
		      "mprotect: %m");
	memory_destroy(&from);
	memory_destroy(&to);
}

static void test_failures(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		/* A SEND or WRITE that cannot be gathered never leaves. */
		if (!ops[i].receives)
			fails(i, true, false);
		fails(i, false, false);
		/* Memory that is read may be read-only, what is written not. */
		if (ops[i].fetches)
			fails(i, true, true);
		if (!ops[i].fetches ||
		    ops[i].op == IBV_WR_ATOMIC_FETCH_AND_ADD)
			fails(i, false, true);
	}
}

/* Memory that the kernel has no address of its own for. */
static uint8_t *hidden_bytes(void)
{
	int file = syscall(SYS_memfd_secret, 0);
	uint8_t *bytes;

	if (file < 0 && errno == ENOSYS)
		return NULL;
	check(file >= 0, "memfd_secret: %m");
	check(!ftruncate(file, BYTES), "ftruncate: %m");
	bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	check(bytes != MAP_FAILED, "mmap: %m");
	close(file);
	memset(bytes, 3, BYTES);
	return bytes;
}

/* Such memory is as good as none, wherever an operation finds it. */
static void test_hidden(void)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	struct memory hidden[2];
	struct ibv_wc wc;

	check(!setrlimit(RLIMIT_MEMLOCK, &all), "setrlimit: %m");
	for (int end = 0; end < 2; end++) {
		struct device *device = &devices[end];

		hidden[end].bytes = hidden_bytes();
		if (!hidden[end].bytes)
			return;
		check(!ibv_reg_mr(device->pd, hidden[end].bytes, BYTES, 0) &&
			      errno == EFAULT,
		      "memory without an address is pinned");
		hidden[end].mr = reg(device, hidden[end].bytes, BYTES,
				     ALL_ACCESS);
		expect_advice("no address",
			      advise(device->pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
				     true, hidden[end].bytes, BYTES,
				     hidden[end].mr->lkey), EFAULT);
		expect_advice("no address, nothing to come",
			      advise(device->pd,
				     IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
				     true, hidden[end].bytes, BYTES,
				     hidden[end].mr->lkey), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		for (int mine = 0; mine < 2; mine++) {
			struct memory other =
				memory_create(&devices[mine], ALL_ACCESS);

			connect_ends();
			post(i, mine ? &hidden[0] : &other,
			     mine ? &other : &hidden[1]);
			check(await(a.send_cq, &wc, DUE_MS) &&
				      wc.status != IBV_WC_SUCCESS,
			      "%s: uses memory without an address",
			      ops[i].name);
			disconnect_ends();
			memory_destroy(&other);
		}
	}
	for (int end = 0; end < 2; end++) {
		for (size_t at = 0; at < BYTES; at++)
			check(hidden[end].bytes[at] == 3,
			      "memory without an address is written");
		memory_destroy(&hidden[end]);
	}
}

/* What is not there beside what may not be used, of one message: nothing is waited for, and the region can go while
 * the queue pair stays. */
static void test_fault_beside(void)
{
	for (int mine = 0; mine < 2; mine++) {
		struct memory from = memory_create(&devices[0], ALL_ACCESS);
		struct memory to = memory_create(&devices[1], ALL_ACCESS);
		struct ibv_sge sources[] = { sge_of(&from, 8), sge_of(&from, 8) };
		struct ibv_sge targets[] = { sge_of(&to, 8), sge_of(&to, 8) };
		struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = targets,
					    .num_sge = 2 };
		struct ibv_send_wr wr = {
			.wr_id = 2,
			.sg_list = sources,
			.num_sge = 2,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
		};

		connect_ends();
		if (mine)
			sources[1].lkey ^= 0x5a5a00;
		else
			targets[1].lkey ^= 0x5a5a00;
		post_recv(&b, &recv);
		post_send(&a, &wr);
		expect("a fault beside a page", a.send_cq, 2,
		       mine ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_OP_ERR);
		if (!mine)
			expect("a fault beside a page", b.recv_cq, 1,
			       IBV_WC_LOC_PROT_ERR);
		memory_destroy(&from);
		memory_destroy(&to);
		disconnect_ends();
	}
}

/* The peer refuses a message while the next one waits for its memory: that is flushed, and its region can go. */
static void test_refused_before(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct memory to = memory_create(&devices[1], ALL_ACCESS);
		struct memory absent = memory_create(&devices[0], ALL_ACCESS);
		struct ibv_mr *pinned = ibv_reg_mr(devices[0].pd, absent.bytes,
						   8, 0);
		struct ibv_sge sges[2] = { { .length = 8 }, { .length = 8 } };
		struct ibv_send_wr wrs[2];

		check(pinned, "reg_mr: %m");
		sges[0].addr = (uintptr_t)absent.bytes;
		sges[0].lkey = pinned->lkey;
		sges[1].addr = (uintptr_t)absent.bytes + PAGE;
		sges[1].lkey = absent.mr->lkey;
		connect_ends();
		for (int i = 0; i < 2; i++) {
			wrs[i] = (struct ibv_send_wr){
				.wr_id = i,
				.next = i ? NULL : &wrs[1],
				.sg_list = &sges[i],
				.num_sge = 1,
				.opcode = IBV_WR_RDMA_WRITE,
				.send_flags = IBV_SEND_SIGNALED,
				.wr.rdma.remote_addr = (uintptr_t)to.bytes,
				.wr.rdma.rkey = to.mr->rkey ^ 0x5a5a00,
			};
		}
		post_send(&a, wrs);
		expect("a refused message", a.send_cq, 0,
		       IBV_WC_REM_ACCESS_ERR);
		expect("the next one", a.send_cq, 1, IBV_WC_WR_FLUSH_ERR);
		check(!ibv_dereg_mr(pinned), "dereg_mr: %m");
		memory_destroy(&absent);
		memory_destroy(&to);
		disconnect_ends();
	}
}

/* ---- regions that go ---- */

/* The memory, or the region, goes while the work is under way. */
static void test_gone(void)
{
	for (int round = 0; round < GONE_ROUNDS; round++) {
		struct memory from = memory_create(&devices[0], ALL_ACCESS);
		struct memory to = memory_create(&devices[1], ALL_ACCESS);
		size_t i = round % ARRAY_SIZE(ops);
		struct ibv_wc wc;

		connect_ends();
		post(i, &from, &to);
		if (round & 1)
			check(!munmap(to.bytes, BYTES), "munmap: %m");
		if (round & 2)
			check(!ibv_dereg_mr(to.mr), "dereg_mr: %m");
		if (round & 4)
			check(!munmap(from.bytes, BYTES), "munmap: %m");
		if (round & 8)
			check(!ibv_dereg_mr(from.mr), "dereg_mr: %m");
		if (!(round & 16))
			check(await(a.send_cq, &wc, DUE_MS),
			      "%s: no completion", ops[i].name);
		disconnect_ends();
		if (!(round & 1))
			munmap(to.bytes, BYTES);
		if (!(round & 2))
			check(!ibv_dereg_mr(to.mr), "dereg_mr: %m");
		if (!(round & 4))
			munmap(from.bytes, BYTES);
		if (!(round & 8))
			check(!ibv_dereg_mr(from.mr), "dereg_mr: %m");
	}
}

int main(int argc, char **argv)
{
	bool all = argc == 3;

	check(all || (argc == 4 && !strcmp(argv[3], "refused")),
	      "usage: odp DEVICE[:PORT] DEVICE[:PORT] [refused]");
	device_open(&devices[0], argv[1]);
	device_open(&devices[1], argv[2]);
	test_refused_before();
	if (all) {
		check_caps(&devices[0]);
		test_advice(&devices[1]);
		test_absent();
		test_failures();
		test_hidden();
		test_fault_beside();
		test_gone();
	}
	device_close(&devices[0]);
	device_close(&devices[1]);
	printf("odp: all as it should be\n");
	return 0;
}
