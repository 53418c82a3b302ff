// SPDX-License-Identifier: GPL-2.0
/*
 * The interface between user space and the driver, as a hostile program uses it:
 * commands that are cut short or too long, rings full of random bytes, mappings
 * that are wrong, objects destroyed in the wrong order, a device that goes away.
 *
 *     abi DEVICE calls|rings|faults|removal [SEED]
 *     abi NETDEV link-faults [STEP]
 *
 * `removal` prints "ready" and waits until somebody removes the device.
 */
#include "common.h"

#include <errno.h>
#include <linux/netlink.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_netlink.h>
#include <rdma/rdma_user_rxe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 100
#define SLOTS 64
#define SGES 4
#define INLINE 64
#define REMOVAL_MS 20000
#define MAX_COMMAND 512

static struct ibv_context *context;
static struct ibv_pd *pd;

/*
 * Writes a command: a header, `core` and `driver` to be read, and room for an
 * answer of `room` bytes. Returns 0 or the error.
 */
static int command(unsigned int number, void *core, size_t core_size,
		   const void *driver, size_t driver_size, void *answer,
		   size_t room)
{
	unsigned char buffer[MAX_COMMAND];
	struct ib_uverbs_cmd_hdr *header = (void *)buffer;
	size_t size = sizeof(*header) + core_size + driver_size;
	/* All commands here begin with the address of the answer. */
	uint64_t address = (uintptr_t)answer;

	check(size <= sizeof(buffer), "the command is too long");
	memcpy(core, &address, sizeof(address));
	header->command = number;
	header->in_words = size / 4;
	header->out_words = room / 4;
	memcpy(header + 1, core, core_size);
	if (driver_size)
		memcpy((char *)(header + 1) + core_size, driver, driver_size);
	return write(context->cmd_fd, buffer, size) == (ssize_t)size ? 0 : errno;
}

static void expect(int got, int wanted, const char *what)
{
	check(got == wanted, "%s: %s, not %s", what, got ? strerror(got) : "success",
	      wanted ? strerror(wanted) : "success");
}

struct cq_answer {
	struct ib_uverbs_create_cq_resp core;
	struct mminfo ring;
};

static int create_cq(unsigned int entries, const void *driver, size_t driver_size,
		     struct cq_answer *answer, size_t room)
{
	struct ib_uverbs_create_cq cq = { .cqe = entries, .comp_channel = -1 };

	memset(answer, 0, sizeof(*answer));
	return command(IB_USER_VERBS_CMD_CREATE_CQ, &cq, sizeof(cq), driver,
		       driver_size, answer, room);
}

static int destroy_cq(unsigned int handle)
{
	struct ib_uverbs_destroy_cq cq = { .cq_handle = handle };
	struct ib_uverbs_destroy_cq_resp answer;

	return command(IB_USER_VERBS_CMD_DESTROY_CQ, &cq, sizeof(cq), NULL, 0,
		       &answer, sizeof(answer));
}

struct qp_answer {
	struct ib_uverbs_create_qp_resp core;
	struct rxe_create_qp_resp rings;
};

static int create_qp(unsigned int type, unsigned int cq, struct qp_answer *answer,
		     size_t room)
{
	struct ib_uverbs_create_qp qp = {
		.pd_handle = pd->handle,
		.send_cq_handle = cq,
		.recv_cq_handle = cq,
		.max_send_wr = SLOTS - 1,
		.max_recv_wr = SLOTS - 1,
		.max_send_sge = SGES,
		.max_recv_sge = SGES,
		.max_inline_data = INLINE,
		.qp_type = type,
	};

	memset(answer, 0, sizeof(*answer));
	return command(IB_USER_VERBS_CMD_CREATE_QP, &qp, sizeof(qp), NULL, 0,
		       answer, room);
}

static int destroy_qp(unsigned int handle)
{
	struct ib_uverbs_destroy_qp qp = { .qp_handle = handle };
	struct ib_uverbs_destroy_qp_resp answer;

	return command(IB_USER_VERBS_CMD_DESTROY_QP, &qp, sizeof(qp), NULL, 0,
		       &answer, sizeof(answer));
}

static int ring_bell(unsigned int handle, unsigned int requests)
{
	struct {
		struct ib_uverbs_post_send core;
		struct ib_uverbs_send_wr wr;
	} post = {
		.core = {
			.qp_handle = handle,
			.wr_count = requests,
			.wqe_size = sizeof(struct ib_uverbs_send_wr),
		},
	};
	struct ib_uverbs_post_send_resp answer;

	return command(IB_USER_VERBS_CMD_POST_SEND, &post,
		       sizeof(post.core) + requests * sizeof(post.wr), NULL, 0,
		       &answer, sizeof(answer));
}

static void *map(const struct mminfo *info, size_t size, int flags)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, flags, context->cmd_fd,
		    info->offset);
}

static struct rxe_queue_buf *map_ring(const struct mminfo *info)
{
	struct rxe_queue_buf *ring = map(info, info->size, MAP_SHARED);

	check(ring != MAP_FAILED, "mapping a ring: %m");
	return ring;
}

static void refuse_map(const struct mminfo *info, size_t size, int flags)
{
	void *ring = map(info, size, flags);

	check(ring == MAP_FAILED, "a mapping of %zu bytes was not refused", size);
	check(errno == EINVAL, "a mapping was refused with: %m");
}

/* Commands that are cut short, too long, or for something else. */
static void test_calls(void)
{
	static const uint64_t zero, garbage = 0xdeadbeef;
	struct cq_answer cq, spare;
	struct qp_answer qp;
	struct rxe_queue_buf *ring;
	struct mminfo wrong;

	expect(create_cq(SLOTS - 1, NULL, 0, &cq, sizeof(cq.core)), EINVAL,
	       "a CQ without room for the answer of the driver");
	expect(create_cq(SLOTS - 1, &garbage, sizeof(garbage), &cq, sizeof(cq)),
	       EOPNOTSUPP, "a CQ with a request that nobody knows");
	expect(create_cq(0, NULL, 0, &cq, sizeof(cq)), EINVAL, "a CQ without entries");
	expect(create_cq(0x7fffffff, NULL, 0, &cq, sizeof(cq)), EINVAL,
	       "a CQ of two thousand million entries");
	expect(create_cq(SLOTS - 1, &zero, sizeof(zero), &cq, sizeof(cq)), 0,
	       "a CQ with an empty request");
	check(cq.core.cqe >= SLOTS - 1, "a CQ of %u entries", cq.core.cqe);
	check(cq.ring.size % sysconf(_SC_PAGESIZE) == 0, "a ring of %u bytes",
	      cq.ring.size);

	refuse_map(&cq.ring, cq.ring.size, MAP_PRIVATE);
	refuse_map(&cq.ring, cq.ring.size + sysconf(_SC_PAGESIZE), MAP_SHARED);
	wrong = cq.ring;
	wrong.offset += 1u << 30;
	refuse_map(&wrong, wrong.size, MAP_SHARED);
	ring = map_ring(&cq.ring);
	check(ring->index_mask + 1 >= cq.core.cqe, "a mask of %#x", ring->index_mask);
	check(1u << ring->log2_elem_size >= sizeof(struct ib_uverbs_wc),
	      "elements of 2^%u bytes", ring->log2_elem_size);

	expect(create_qp(IBV_QPT_RC, cq.core.cq_handle, &qp, sizeof(qp.core)), EINVAL,
	       "a queue pair without room for the answer of the driver");
	expect(create_qp(IBV_QPT_RAW_PACKET, cq.core.cq_handle, &qp, sizeof(qp)),
	       EOPNOTSUPP, "a queue pair of a type that the device lacks");
	expect(create_qp(IBV_QPT_RC, cq.core.cq_handle, &qp, sizeof(qp)), 0,
	       "a queue pair");
	check(qp.core.max_inline_data >= INLINE && qp.core.max_send_sge >= SGES,
	      "less than was asked for");
	expect(ring_bell(qp.core.qp_handle, 1), EINVAL,
	       "a request beside the ring");
	expect(destroy_cq(cq.core.cq_handle), EBUSY, "destroying a CQ in use");

	/* The pages live as long as the mapping. */
	expect(destroy_qp(qp.core.qp_handle), 0, "destroying the queue pair");
	expect(destroy_cq(cq.core.cq_handle), 0, "destroying the CQ");
	memset(ring, 0xff, cq.ring.size);
	refuse_map(&cq.ring, cq.ring.size, MAP_SHARED);
	expect(create_cq(SLOTS - 1, NULL, 0, &spare, sizeof(spare)), 0, "another CQ");
	check(!munmap(ring, cq.ring.size), "munmap: %m");
	expect(destroy_cq(spare.core.cq_handle), 0, "destroying the other CQ");
}

/* Takes a queue pair to RTS, connected to itself if that is what it does. */
static void connect_qp(struct ibv_qp *qp, uint16_t lid)
{
	bool ud = qp->qp_type == IBV_QPT_UD, rc = qp->qp_type == IBV_QPT_RC;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = ALL_ACCESS,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.ah_attr = { .dlid = lid, .port_num = 1 },
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.timeout = 8,
		.retry_cnt = 1,
	};

	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)), "INIT: %m");
	attr.qp_state = IBV_QPS_RTR;
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE |
			     (ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			      IBV_QP_RQ_PSN) |
			     (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)),
	      "RTR: %m");
	attr.qp_state = IBV_QPS_RTS;
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN |
			     (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			      IBV_QP_MAX_QP_RD_ATOMIC : 0)), "RTS: %m");
}

static void scribble(struct rng *rng, void *memory, size_t size)
{
	unsigned char *bytes = memory;

	for (size_t i = 0; i < size; i++)
		bytes[i] = rng_next(rng);
}

/* A request that gets past the first checks more often than random bytes. */
static void plausible(struct rng *rng, struct rxe_send_wqe *wqe, uint32_t key,
		      void *memory)
{
	struct rxe_sge *sge = wqe->dma.sge;

	scribble(rng, wqe, sizeof(*wqe) + SGES * sizeof(*sge));
	wqe->wr.opcode = rng_below(rng, 18);
	wqe->wr.send_flags = rng_below(rng, 16);
	wqe->dma.num_sge = rng_below(rng, SGES + 2);
	wqe->dma.length = rng_below(rng, 2 * INLINE);
	wqe->wr.wr.rdma.remote_addr = (uintptr_t)memory;
	if (rng_once_in(rng, 2))
		wqe->wr.wr.rdma.rkey = key;
	for (unsigned int i = 0; i < SGES; i++) {
		sge[i].addr = (uintptr_t)memory + rng_below(rng, 64);
		sge[i].lkey = rng_once_in(rng, 8) ? 0 : key;
		if (!rng_once_in(rng, 8))
			sge[i].length = rng_below(rng, 4096);
	}
}

/* A ring and the size of its elements, which is safe from what is written to it. */
struct ring {
	struct rxe_queue_buf *shared;
	unsigned int shift;
	size_t size;
};

static struct ring open_ring(const struct mminfo *info)
{
	struct ring ring = { .shared = map_ring(info), .size = info->size };

	ring.shift = ring.shared->log2_elem_size;
	check(sizeof(*ring.shared) + ((size_t)SLOTS << ring.shift) <= ring.size,
	      "a ring that is too small");
	return ring;
}

static void close_ring(struct ring *ring)
{
	check(!munmap(ring->shared, ring->size), "munmap: %m");
}

static void *random_slot(struct rng *rng, struct ring *ring)
{
	return ring->shared->data + ((size_t)rng_below(rng, SLOTS) << ring->shift);
}

/* A queue pair made by a raw command; what changes its state is a shell around it. */
struct raw_qp {
	struct qp_answer made;
	struct ibv_qp shell;
};

static void rings_of(unsigned int type, struct rng *rng, uint16_t lid, struct ibv_mr *mr)
{
	struct cq_answer cq;
	struct raw_qp qp = { 0 };
	struct ring send, recv, done;

	expect(create_cq(SLOTS - 1, NULL, 0, &cq, sizeof(cq)), 0, "a CQ");
	expect(create_qp(type, cq.core.cq_handle, &qp.made, sizeof(qp.made)), 0,
	       "a queue pair");
	qp.shell.context = context;
	qp.shell.handle = qp.made.core.qp_handle;
	qp.shell.qp_num = qp.made.core.qpn;
	qp.shell.qp_type = type;
	connect_qp(&qp.shell, lid);
	done = open_ring(&cq.ring);
	send = open_ring(&qp.made.rings.sq_mi);
	recv = open_ring(&qp.made.rings.rq_mi);

	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (unsigned int i = 0; i < 8; i++) {
			scribble(rng, random_slot(rng, &recv), (size_t)1 << recv.shift);
			plausible(rng, random_slot(rng, &send), mr->lkey, mr->addr);
		}
		if (rng_once_in(rng, 4))
			send.shared->producer_index = rng_next(rng);
		else
			send.shared->producer_index = (send.shared->producer_index + 5) % SLOTS;
		recv.shared->producer_index = rng_next(rng);
		if (rng_once_in(rng, 4))
			done.shared->consumer_index = rng_next(rng);
		if (rng_once_in(rng, 8)) {
			scribble(rng, &send.shared->log2_elem_size, 8);
			scribble(rng, &send.shared->consumer_index, 4);
			scribble(rng, &recv.shared->consumer_index, 4);
			scribble(rng, &done.shared->log2_elem_size, 8);
			scribble(rng, &done.shared->producer_index, 4);
		}
		expect(ring_bell(qp.made.core.qp_handle, 0), 0, "the bell");
	}
	expect(destroy_qp(qp.made.core.qp_handle), 0, "destroying the queue pair");
	expect(destroy_cq(cq.core.cq_handle), 0, "destroying the CQ");
	close_ring(&done);
	close_ring(&send);
	close_ring(&recv);
}

/* Rings full of what should not be there. */
static void test_rings(uint64_t seed)
{
	static const unsigned int types[] = { IBV_QPT_UD, IBV_QPT_UC, IBV_QPT_RC };
	struct rng rng;
	struct ibv_port_attr port;
	static unsigned char memory[8192] __attribute__((aligned(4096)));
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), ALL_ACCESS);

	check(mr, "ibv_reg_mr: %m");
	check(!ibv_query_port(context, 1, &port), "ibv_query_port: %m");
	rng_seed(&rng, seed);
	for (unsigned int round = 0; round < 4; round++)
		for (unsigned int i = 0; i < ARRAY_SIZE(types); i++)
			rings_of(types[i], &rng, port.lid, mr);
	check(!ibv_dereg_mr(mr), "ibv_dereg_mr: %m");
}

/*
 * Makes the n-th allocation fail that this thread does in the kernel from now on,
 * none with 0. Returns what is left of the number before: 0 if one has failed.
 */
static unsigned int fail_nth(int fd, unsigned int n)
{
	char text[16] = "";

	check(pread(fd, text, sizeof(text) - 1, 0) > 0, "reading fail-nth: %m");
	check(dprintf(fd, "%u", n) > 0, "writing fail-nth: %m");
	return strtoul(text, NULL, 0);
}

/* What is made and destroyed with allocations that fail. */
struct fault {
	const char *what;
	int (*attempt)(void);
};

static unsigned int fault_cq;

static int attempt_cq(void)
{
	struct cq_answer cq;
	int error = create_cq(SLOTS - 1, NULL, 0, &cq, sizeof(cq));

	return error ? error : destroy_cq(cq.core.cq_handle);
}

static int attempt_qp(void)
{
	struct qp_answer qp;
	int error = create_qp(IBV_QPT_RC, fault_cq, &qp, sizeof(qp));

	return error ? error : destroy_qp(qp.core.qp_handle);
}

static int attempt_pd(void)
{
	struct ibv_pd *made = ibv_alloc_pd(context);

	return made ? ibv_dealloc_pd(made) : errno;
}

static int attempt_mr(void)
{
	static unsigned char memory[65536];
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), ALL_ACCESS);

	return mr ? ibv_dereg_mr(mr) : errno;
}

static int attempt_ah(void)
{
	struct ibv_ah_attr attr = { .dlid = 1, .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);

	return ah ? ibv_destroy_ah(ah) : errno;
}

static int attempt_srq(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);

	return srq ? ibv_destroy_srq(srq) : errno;
}

static int attempt_context(void)
{
	struct ibv_context *made = ibv_open_device(context->device);

	return made ? ibv_close_device(made) : errno;
}

/* Every allocation of every call fails once. The kernel must offer that. */
static void test_faults(void)
{
	static const struct fault faults[] = {
		{ "a PD", attempt_pd },	  { "a CQ", attempt_cq },
		{ "a QP", attempt_qp },	  { "an MR", attempt_mr },
		{ "an AH", attempt_ah },  { "an SRQ", attempt_srq },
		{ "a context", attempt_context },
	};
	FILE *fail_file = fopen("/proc/thread-self/fail-nth", "r+");
	struct cq_answer cq;
	int fd;

	check(fail_file, "the kernel does not inject faults: %m");
	fd = fileno(fail_file);
	expect(create_cq(SLOTS - 1, NULL, 0, &cq, sizeof(cq)), 0, "a CQ");
	fault_cq = cq.core.cq_handle;
	for (unsigned int i = 0; i < ARRAY_SIZE(faults); i++) {
		unsigned int n = 0, left;

		expect(faults[i].attempt(), 0, faults[i].what);
		do {
			int error;

			fail_nth(fd, ++n);
			error = faults[i].attempt();
			left = fail_nth(fd, 0);
			check(!left || !error, "%s, allocation %u: %s without a fault",
			      faults[i].what, n, strerror(error));
		} while (!left);
		expect(faults[i].attempt(), 0, faults[i].what);
		printf("%s: %u allocations\n", faults[i].what, n - 1);
	}
	expect(destroy_cq(cq.core.cq_handle), 0, "destroying the CQ");
	fclose(fail_file);
}

static void add_text(struct nlmsghdr *message, unsigned short type, const char *text)
{
	struct nlattr *attr = (void *)((char *)message + NLMSG_ALIGN(message->nlmsg_len));

	attr->nla_type = type;
	attr->nla_len = NLA_HDRLEN + strlen(text) + 1;
	strcpy((char *)attr + NLA_HDRLEN, text);
	message->nlmsg_len = NLMSG_ALIGN(message->nlmsg_len) + attr->nla_len;
}

/* `rdma link add NAME type sib netdev NETDEV`, in this thread. */
static int add_link(int netlink, const char *name, const char *netdev)
{
	union {
		struct nlmsghdr header;
		unsigned char bytes[1024];
	} message = {
		.header = {
			.nlmsg_len = NLMSG_HDRLEN,
			.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_NEWLINK),
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
		},
	};
	struct nlmsgerr *answer = NLMSG_DATA(&message.header);

	add_text(&message.header, RDMA_NLDEV_ATTR_DEV_NAME, name);
	add_text(&message.header, RDMA_NLDEV_ATTR_LINK_TYPE, "sib");
	add_text(&message.header, RDMA_NLDEV_ATTR_NDEV_NAME, netdev);
	if (send(netlink, &message, message.header.nlmsg_len, 0) < 0)
		return errno;
	if (recv(netlink, &message, sizeof(message), MSG_DONTWAIT) < 0)
		return errno;
	return -answer->error;
}

/* Of the allocations of the creation of a device, every `step`-th fails once. */
static void test_link_faults(const char *netdev, unsigned int step)
{
	int netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA);
	FILE *fail_file = fopen("/proc/thread-self/fail-nth", "r+");
	unsigned int n = 0, left, tried = 0, failures = 0;

	check(netlink >= 0, "a netlink socket: %m");
	check(fail_file, "the kernel does not inject faults: %m");
	do {
		int error;

		n += step;
		tried++;
		fail_nth(fileno(fail_file), n);
		error = add_link(netlink, "sibfault", netdev);
		left = fail_nth(fileno(fail_file), 0);
		if (error)
			failures++;
		check(!left || !error, "allocation %u: %s without a fault", n,
		      strerror(error));
		/* Some failures are no reason to give up. */
		if (!access("/sys/class/infiniband/sibfault", F_OK))
			check(!system("rdma link del sibfault"), "rdma link del");
	} while (!left);
	printf("a device: about %u allocations; of %u that failed %u mattered\n", n,
	       tried, failures);
	fclose(fail_file);
	close(netlink);
}

/* The device goes away under a program that has it open. */
static void test_removal(void)
{
	struct cq_answer cq, other;
	struct qp_answer qp;
	struct rxe_queue_buf *ring;
	uint64_t end = now_ms() + REMOVAL_MS;
	int error;

	expect(create_cq(SLOTS - 1, NULL, 0, &cq, sizeof(cq)), 0, "a CQ");
	expect(create_qp(IBV_QPT_RC, cq.core.cq_handle, &qp, sizeof(qp)), 0,
	       "a queue pair");
	ring = map_ring(&cq.ring);
	puts("ready");
	fflush(stdout);
	while (!(error = create_cq(SLOTS - 1, NULL, 0, &other, sizeof(other)))) {
		check(now_ms() < end, "nobody removes the device");
		expect(destroy_cq(other.core.cq_handle), 0, "destroying a CQ");
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	expect(error, EIO, "a CQ of a device that is gone");
	memset(ring, 0xff, cq.ring.size);
	check(!munmap(ring, cq.ring.size), "munmap: %m");
	exit(0);
}

int main(int argc, char **argv)
{
	struct ibv_device **list;
	struct ibv_device *device = NULL;

	check(argc >= 3, "usage: abi DEVICE calls|rings|faults|removal [SEED]");
	if (!strcmp(argv[2], "link-faults")) {
		test_link_faults(argv[1], argc > 3 ? strtoul(argv[3], NULL, 0) : 1);
		return 0;
	}
	list = ibv_get_device_list(NULL);
	check(list, "ibv_get_device_list: %m");
	for (unsigned int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), argv[1]))
			device = list[i];
	check(device, "no device %s", argv[1]);
	context = ibv_open_device(device);
	check(context, "ibv_open_device: %m");
	pd = ibv_alloc_pd(context);
	check(pd, "ibv_alloc_pd: %m");
	if (!strcmp(argv[2], "calls"))
		test_calls();
	else if (!strcmp(argv[2], "rings"))
		test_rings(argc > 3 ? strtoull(argv[3], NULL, 0) : 1);
	else if (!strcmp(argv[2], "faults"))
		test_faults();
	else if (!strcmp(argv[2], "removal"))
		test_removal();
	else
		fail("no test %s", argv[2]);
	check(!ibv_dealloc_pd(pd), "ibv_dealloc_pd: %m");
	check(!ibv_close_device(context), "ibv_close_device: %m");
	ibv_free_device_list(list);
	return 0;
}
