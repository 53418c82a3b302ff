// SPDX-License-Identifier: GPL-2.0
/*
 * One process rings doorbells without a work request, as fast as it can. Another one on
 * the same HCAs posts messages by two calls each time, of which the second may wait for
 * company: it leaves all the same.
 */

#include "bench.h"
#include "rings.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 200
#define SEND 1
#define RECV 100
#define RECV_BYTES 1024u
/* Eight times 2 s: a processor that stands still is no reason to give up. */
#define ACK_TIMEOUT 19

static struct device devices[2];
static struct bench bench;

static void begin(void)
{
	const struct end_options options = {
		.type = IBV_QPT_RC,
		.send_depth = BENCH_DEPTH,
		.recv_depth = BENCH_DEPTH,
		.sges = 2,
	};

	struct path_options path = default_path;

	path.timeout = ACK_TIMEOUT;
	device_open(&devices[0], "sib0");
	device_open(&devices[1], "sib1");
	bench_create(&bench, &devices[0], &devices[1], &options);
	end_connect(&bench.a, &bench.b, &path);
}

static void post(unsigned int flags)
{
	struct ibv_sge sge = sge_local(&bench, 8);
	struct ibv_send_wr *bad, wr = {
		.wr_id = SEND,
		.opcode = IBV_WR_SEND,
		.send_flags = flags,
		.sg_list = &sge,
		.num_sge = 1,
	};

	check(!ibv_post_send(bench.a.qp, &wr, &bad), "post_send: %m");
}

/* No answer to the first message comes before the second is posted. */
static void talk(void)
{
	post_recvs(&bench, &bench.b, RECV, 2, RECV_BYTES);
	post(0);
	post(IBV_SEND_SIGNALED);
	expect_run("company", bench.b.recv_cq, RECV, 2, IBV_WC_SUCCESS);
	expect("company", bench.a.send_cq, SEND, IBV_WC_SUCCESS);
}

static void ring_for_ever(int told)
{
	begin();
	talk();
	check(write(told, "!", 1) == 1, "pipe: %m");
	while (!ring_bell(bench.a.qp))
		;
	_exit(1);
}

int main(void)
{
	int told[2];
	char byte;
	pid_t idler;

	check(!pipe(told), "pipe: %m");
	idler = fork();
	check(idler >= 0, "fork: %m");
	if (!idler)
		ring_for_ever(told[1]);
	check(read(told[0], &byte, 1) == 1, "pipe: %m");
	begin();
	for (int round = 0; round < ROUNDS; round++)
		talk();
	bench_destroy(&bench);
	check(!waitpid(idler, NULL, WNOHANG), "nobody rings any more");
	kill(idler, SIGKILL);
	waitpid(idler, NULL, 0);
	printf("company: %d rounds\n", ROUNDS);
	return 0;
}
