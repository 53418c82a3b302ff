// SPDX-License-Identifier: GPL-2.0
/*
 * FLUSH and ATOMIC WRITE: what they do, in which order, and what comes of those
 * that are wrong.
 *
 *     placement [-o] DEVICE[:PORT] DEVICE[:PORT]
 */

#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Of device_cap_flags_ex; libibverbs has no names for them. */
#define CAP_FLUSH_GLOBAL (1ull << 38)
#define CAP_ATOMIC_WRITE (1ull << 40)

#define ACCESS (ALL_ACCESS | IBV_ACCESS_FLUSH_GLOBAL)
#define ROUNDS 500

static struct device devices[2];
static struct bench bench;
/* All of `bench.remote`, with leave to flush it. */
static struct ibv_mr *flush_mr;

static void start(unsigned int access)
{
	const struct end_options options = {
		.type = IBV_QPT_RC,
		.send_depth = BENCH_DEPTH,
		.recv_depth = BENCH_DEPTH,
		.sges = 1,
		.send_ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_FLUSH |
			    IBV_QP_EX_WITH_ATOMIC_WRITE,
	};
	struct path_options path = default_path;

	path.access = access;
	bench_create(&bench, &devices[0], &devices[1], &options);
	flush_mr = bench_reg(devices[1].pd, bench.remote, ACCESS);
	end_connect(&bench.a, &bench.b, &path);
}

static void stop(void)
{
	end_destroy(&bench.a);
	end_destroy(&bench.b);
	bench.a.qp = bench.b.qp = NULL;
	check(!ibv_dereg_mr(flush_mr), "dereg_mr: %m");
	bench_destroy(&bench);
}

static struct ibv_qp_ex *begin(uint64_t wr_id)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(bench.a.qp);

	check(qp, "no extended queue pair");
	ibv_wr_start(qp);
	qp->wr_id = wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	return qp;
}

static void end(struct ibv_qp_ex *qp)
{
	int error = ibv_wr_complete(qp);

	check(!error, "wr_complete: %s", strerror(error));
}

static void write_bytes(struct ibv_qp_ex *qp, uint64_t wr_id, uint32_t length)
{
	qp->wr_id = wr_id;
	ibv_wr_rdma_write(qp, flush_mr->rkey, (uintptr_t)bench.remote);
	ibv_wr_set_sge(qp, bench.local_mr->lkey, (uintptr_t)bench.local, length);
}

static void due(const char *test, uint64_t wr_id, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	check(await(bench.a.send_cq, &wc, DUE_MS), "%s: no completion", test);
	check(wc.status == IBV_WC_SUCCESS, "%s: '%s'", test,
	      ibv_wc_status_str(wc.status));
	check(wc.wr_id == wr_id && wc.opcode == opcode,
	      "%s: WR %llu, opcode %d", test, (unsigned long long)wc.wr_id,
	      wc.opcode);
}

static void capabilities(void)
{
	struct ibv_device_attr_ex attr;
	uint64_t both = CAP_FLUSH_GLOBAL | CAP_ATOMIC_WRITE;

	for (int i = 0; i < 2; i++) {
		check(!ibv_query_device_ex(devices[i].context, NULL, &attr),
		      "query_device_ex: %m");
		check((attr.device_cap_flags_ex & both) == both,
		      "%s does not offer both", devices[i].name);
	}
}

/* Each value of an ATOMIC WRITE arrives whole, after the data before it. */
static void atomic_writes(void)
{
	volatile uint64_t *flag = (void *)(bench.remote + BENCH_BYTES - 8);
	uint8_t value[8];

	for (uint64_t round = 1; round <= ROUNDS; round++) {
		struct ibv_qp_ex *qp;
		uint64_t seen;

		memset(bench.local, round, 4096);
		memset(value, round, sizeof(value));
		memset((void *)flag, 0, 8);
		qp = begin(1);
		write_bytes(qp, 1, 4096);
		qp->wr_id = 2;
		ibv_wr_atomic_write(qp, flush_mr->rkey, (uintptr_t)flag, value);
		end(qp);
		seen = *flag;
		check(!seen || !memcmp(&seen, value, 8),
		      "ATOMIC WRITE of %llu: there is %llx",
		      (unsigned long long)round, (unsigned long long)seen);
		due("WRITE before ATOMIC WRITE", 1, IBV_WC_RDMA_WRITE);
		due("ATOMIC WRITE", 2, IBV_WC_ATOMIC_WRITE);
		seen = *flag;
		check(!memcmp(&seen, value, 8), "ATOMIC WRITE has no effect");
		check(!memcmp(bench.local, bench.remote, 4096),
		      "the data before the ATOMIC WRITE are not there");
	}
}

static void flushes(void)
{
	for (int level = IBV_FLUSH_RANGE; level <= IBV_FLUSH_MR; level++)
		for (uint64_t round = 0; round < ROUNDS; round++) {
			struct ibv_qp_ex *qp = begin(0);

			memset(bench.local, round, 4096);
			write_bytes(qp, 0, 4096);
			qp->wr_id = 1;
			ibv_wr_flush(qp, flush_mr->rkey,
				     (uintptr_t)bench.remote, 4096,
				     IBV_FLUSH_GLOBAL, level);
			end(qp);
			due("WRITE before FLUSH", 0, IBV_WC_RDMA_WRITE);
			due("FLUSH", 1, IBV_WC_FLUSH);
			check(!memcmp(bench.local, bench.remote, 4096),
			      "the data before the FLUSH are not there");
		}
}

/* More of them than may be under way at once. */
static void many(void)
{
	uint64_t value = 0;

	for (int round = 0; round < 20; round++) {
		struct ibv_qp_ex *qp = begin(0);

		for (int i = 0; i < (int)BENCH_DEPTH / 2; i++) {
			value++;
			qp->wr_id = 2 * i;
			ibv_wr_atomic_write(qp, flush_mr->rkey,
					    (uintptr_t)bench.remote, &value);
			qp->wr_id = 2 * i + 1;
			ibv_wr_flush(qp, flush_mr->rkey,
				     (uintptr_t)bench.remote, 8,
				     IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
		}
		end(qp);
		for (int i = 0; i < (int)BENCH_DEPTH / 2; i++) {
			due("many", 2 * i, IBV_WC_ATOMIC_WRITE);
			due("many", 2 * i + 1, IBV_WC_FLUSH);
		}
		check(!memcmp(bench.remote, &value, 8), "a value is missing");
	}
}

struct fault {
	const char *name;
	bool is_flush;
	/* Of the responder's queue pair. */
	unsigned int access;
	/* Added to the address. */
	uint64_t offset;
	uint32_t length;
	uint8_t types;
	uint8_t level;
	/* Whether the key is of a region without leave to flush. */
	bool plain;
	/* Whether it is of one that may only be read from afar. */
	bool readable;
	enum ibv_wc_status status;
	int event;
};

#define ACCESS_ERROR IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR
#define INVALID IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR

static const struct fault faults[] = {
	{ "FLUSH without leave of the queue pair", true, ALL_ACCESS, 0, 8,
	  IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE, false, false, INVALID },
	{ "FLUSH without leave of the region", true, ACCESS, 0, 8,
	  IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE, true, false, ACCESS_ERROR },
	{ "FLUSH of a region without leave of it", true, ACCESS, 0, 8,
	  IBV_FLUSH_GLOBAL, IBV_FLUSH_MR, true, false, ACCESS_ERROR },
	{ "FLUSH beyond the region", true, ACCESS, BENCH_BYTES - 7, 8,
	  IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE, false, false, ACCESS_ERROR },
	{ "FLUSH to persistence", true, ACCESS, 0, 8, IBV_FLUSH_PERSISTENT,
	  IBV_FLUSH_RANGE, false, false, INVALID },
	{ "FLUSH to nowhere", true, ACCESS, 0, 8, 0, IBV_FLUSH_RANGE, false,
	  false, INVALID },
	{ "FLUSH of an unknown level", true, ACCESS, 0, 8, IBV_FLUSH_GLOBAL, 2,
	  false, false, INVALID },
	{ "ATOMIC WRITE without leave of the queue pair", false,
	  ACCESS & ~IBV_ACCESS_REMOTE_WRITE, 0, 8, 0, 0, false, false,
	  INVALID },
	{ "ATOMIC WRITE without leave of the region", false, ACCESS, 0, 8, 0,
	  0, false, true, ACCESS_ERROR },
	{ "ATOMIC WRITE to an odd address", false, ACCESS, 4, 8, 0, 0, false,
	  false, INVALID },
	{ "ATOMIC WRITE beyond the region", false, ACCESS, BENCH_BYTES, 8, 0,
	  0, false, false, ACCESS_ERROR },
};

static void spoil(const struct fault *fault)
{
	uint64_t value = 0x1122334455667788;
	struct ibv_qp_ex *qp;
	uint64_t address;
	uint32_t rkey;

	start(fault->access);
	rkey = fault->readable ? bench.readable_mr->rkey :
	       fault->plain    ? bench.remote_mr->rkey :
				 flush_mr->rkey;
	address = (uintptr_t)bench.remote + fault->offset;
	qp = begin(7);
	if (fault->is_flush)
		ibv_wr_flush(qp, rkey, address, fault->length, fault->types,
			     fault->level);
	else
		ibv_wr_atomic_write(qp, rkey, address, &value);
	end(qp);
	expect(fault->name, bench.a.send_cq, 7, fault->status);
	expect_event(fault->name, &devices[1], fault->event);
	for (size_t i = 0; i < BENCH_BYTES; i++)
		check(bench.remote[i] == 0xbb, "%s: it was executed",
		      fault->name);
	stop();
}

/* Leave that the device cannot give is refused. */
static void persistence(void)
{
	struct ibv_mr *mr = ibv_reg_mr(devices[1].pd, bench.remote, BENCH_BYTES,
				       ACCESS | IBV_ACCESS_FLUSH_PERSISTENT);

	check(!mr, "a region with FLUSH to persistence was registered");
	check(errno == EOPNOTSUPP, "FLUSH to persistence is refused: %m");
}

int main(int argc, char **argv)
{
	bench_options(&argc, &argv);
	check(argc == 3, "usage: placement [-o] DEVICE[:PORT] DEVICE[:PORT]");
	for (int i = 0; i < 2; i++)
		device_open(&devices[i], argv[i + 1]);
	capabilities();
	start(ACCESS);
	atomic_writes();
	flushes();
	many();
	persistence();
	stop();
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		spoil(&faults[i]);
	for (int i = 0; i < 2; i++)
		device_close(&devices[i]);
	printf("placement: %zu faults, %d rounds\n", ARRAY_SIZE(faults), ROUNDS);
	return 0;
}
