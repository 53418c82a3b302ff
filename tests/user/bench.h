/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two connected ends with memory, for tests of what goes wrong between them.
 * End `a` asks, end `b` answers.
 */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include "common.h"

#define BENCH_BYTES 65536u
#define BENCH_DEPTH 32u
/* How long a completion may take: retries included, on a busy machine. */
#define DUE_MS 20000
/* How long nothing may happen to be taken for nothing. */
#define QUIET_MS 50

struct bench {
	struct device *devices[2];
	struct end a;
	struct end b;
	/* Of `a`; all rights. */
	uint8_t *local;
	struct ibv_mr *local_mr;
	/* Of `a`; nobody may write. */
	struct ibv_mr *frozen_mr;
	/* Of `b`; all rights. */
	uint8_t *remote;
	struct ibv_mr *remote_mr;
	/* The same memory; only to be read from afar, only to be written. */
	struct ibv_mr *readable_mr;
	struct ibv_mr *writable_mr;
};

/*
 * Takes the option -o off the arguments: regions are on demand, and pages are taken
 * away all the time.
 */
void bench_options(int *argc, char ***argv);

/* Makes both ends, in RESET. */
void bench_create(struct bench *bench, struct device *a, struct device *b,
		  const struct end_options *options);
void bench_destroy(struct bench *bench);

/* Registers memory of a bench once more. */
struct ibv_mr *bench_reg(struct ibv_pd *pd, uint8_t *bytes,
			 unsigned int access);

/* A list of one entry in the memory of `a` or of `b`. */
struct ibv_sge sge_local(const struct bench *bench, uint32_t length);
struct ibv_sge sge_remote(const struct bench *bench, uint32_t length);

/* Posts `count` receives of `length` bytes to `end` with wr_ids from `first`. */
void post_recvs(const struct bench *bench, struct end *end, uint64_t first,
		int count, uint32_t length);
/* Posts `count` SENDs of 8 bytes from `a`, of which every second is signaled. */
void post_sends(struct bench *bench, uint64_t first, int count);

/* The next completion of `cq` must be this one. */
void expect(const char *test, struct ibv_cq *cq, uint64_t wr_id,
	    enum ibv_wc_status status);
/* The next ones must be `count` with this status, with wr_ids from `first`. */
void expect_run(const char *test, struct ibv_cq *cq, uint64_t first, int count,
		enum ibv_wc_status status);
/* There must be none. */
void expect_none(const char *test, struct ibv_cq *cq);

/* The next asynchronous event of `device` must be this one; -1: there is none. */
void expect_event(const char *test, struct device *device, int type);

/* Whether the channel of an end tells of this queue within `ms`, and of no other. */
bool notified(const char *test, struct end *end, struct ibv_cq *due, int ms);

#endif
