// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that is long in coming: what the answer to a READ needs, and what a
 * message behind it waits for that takes the key away.
 *
 *     tardy DEVICE[:PORT] DEVICE[:PORT] FILE
 *
 * Reading a page of FILE takes a second. End `b` owns the memory.
 */

#include "bench.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u
#define PAGES 4u
#define SENT 64u
/* Until what is under way has come to wait, and then for how long it is watched. */
#define SETTLE_MS 50
#define WATCH_MS 150
/* All that the guest does meanwhile; who looks each 50 us is seen 3000 times. */
#define SWITCHES 1000

static struct device devices[2];
static struct bench bench;

static const struct end_options options = {
	.type = IBV_QPT_RC,
	.send_depth = BENCH_DEPTH,
	.recv_depth = BENCH_DEPTH,
	.sges = 1,
};

static void sleep_ms(unsigned int ms)
{
	check(!usleep(ms * 1000), "usleep: %m");
}

/* Context switches of the guest so far. Asks for no memory, which may be locked while a page is waited for. */
static uint64_t switches(void)
{
	static char text[64 << 10];
	int file = open("/proc/stat", O_RDONLY);
	const char *line;
	ssize_t length;

	check(file >= 0, "/proc/stat: %m");
	length = read(file, text, sizeof(text) - 1);
	check(length > 0, "/proc/stat: %m");
	close(file);
	line = strstr(text, "ctxt ");
	check(line, "no context switches in /proc/stat");
	return strtoull(line + strlen("ctxt "), NULL, 10);
}

/* A window to all of `mr`. */
static struct ibv_mw *bind_window(struct ibv_mr *mr)
{
	struct ibv_mw *mw = ibv_alloc_mw(devices[1].pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = { .wr_id = 1,
				  .opcode = IBV_WR_BIND_MW,
				  .send_flags = IBV_SEND_SIGNALED };

	check(mw, "alloc_mw: %m");
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		mr, (uintptr_t)mr->addr, mr->length, IBV_ACCESS_REMOTE_READ
	};
	post_send(&bench.b, &wr);
	mw->rkey = wr.bind_mw.rkey;
	expect("bind", bench.b.send_cq, 1, IBV_WC_SUCCESS);
	return mw;
}

/* A message takes the key away by which a READ before it still is to be answered. */
static void test_key(const char *path)
{
	int file = open(path, O_RDWR);
	void *bytes = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
			   MAP_SHARED, file, 0);
	struct ibv_sge sge = sge_local(&bench, SENT);
	struct ibv_send_wr invalidate = { .wr_id = 3,
					  .opcode = IBV_WR_SEND_WITH_INV,
					  .send_flags = IBV_SEND_SIGNALED,
					  .sg_list = &sge,
					  .num_sge = 1 };
	struct ibv_send_wr read = { .wr_id = 2,
				    .next = &invalidate,
				    .opcode = IBV_WR_RDMA_READ,
				    .send_flags = IBV_SEND_SIGNALED,
				    .sg_list = &sge,
				    .num_sge = 1 };
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_wc wc;
	uint64_t before, count;

	check(file >= 0, "%s: %m", path);
	check(bytes != MAP_FAILED, "mmap: %m");
	check(!madvise(bytes, PAGES * PAGE, MADV_RANDOM), "madvise: %m");
	mr = ibv_reg_mr(devices[1].pd, bytes, PAGES * PAGE,
			ALL_ACCESS | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND);
	check(mr, "reg_mr: %m");
	mw = bind_window(mr);

	read.wr.rdma.remote_addr = (uintptr_t)bytes;
	read.wr.rdma.rkey = mw->rkey;
	invalidate.invalidate_rkey = mw->rkey;
	post_send(&bench.a, &read);
	sleep_ms(SETTLE_MS);
	before = switches();
	sleep_ms(WATCH_MS);
	count = switches() - before;
	check(!ibv_poll_cq(bench.a.send_cq, 1, &wc), "the memory came at once");
	check(!ibv_poll_cq(bench.b.recv_cq, 1, &wc),
	      "the key was taken before it was used");
	expect("READ", bench.a.send_cq, 2, IBV_WC_SUCCESS);
	expect("SEND", bench.a.send_cq, 3, IBV_WC_SUCCESS);
	expect("receive", bench.b.recv_cq, 1, IBV_WC_SUCCESS);
	printf("%" PRIu64 " context switches in %d ms\n", count, WATCH_MS);
	check(count < SWITCHES, "something looks all the time");

	check(!ibv_dealloc_mw(mw), "dealloc_mw: %m");
	check(!ibv_dereg_mr(mr), "dereg_mr: %m");
	check(!munmap(bytes, PAGES * PAGE) && !close(file), "munmap: %m");
}

int main(int argc, char **argv)
{
	check(argc == 4, "usage: tardy DEVICE[:PORT] DEVICE[:PORT] FILE");
	device_open(&devices[0], argv[1]);
	device_open(&devices[1], argv[2]);
	bench_create(&bench, &devices[0], &devices[1], &options);
	end_connect(&bench.a, &bench.b, &default_path);
	/* From the answer `a` learns that there are receives. */
	post_recvs(&bench, &bench.b, 0, 2, SENT);
	post_sends(&bench, 0, 1);
	expect("first SEND", bench.a.send_cq, 0, IBV_WC_SUCCESS);
	expect("first receive", bench.b.recv_cq, 0, IBV_WC_SUCCESS);
	test_key(argv[3]);
	bench_destroy(&bench);
	device_close(&devices[0]);
	device_close(&devices[1]);
	printf("tardy: all as it should be\n");
	return 0;
}
