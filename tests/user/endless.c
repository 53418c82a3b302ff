// SPDX-License-Identifier: GPL-2.0
/*
 * One of two processes with traffic between them that never ends by itself: SEND,
 * RDMA WRITE and READ both ways, with work posted all the time. When the other
 * one dies, the completions of all that is posted must come, once each and in order:
 * then the survivor ends with status 0. So it does when the device goes away, which
 * completes the work, too.
 */

#include "common.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DEPTH 16
#define RECVS 64
#define SLOT 65536u
#define STALL_MS 60000
/* How long one waits for the other to begin. */
#define MEET_MS 20000
/* Marks the wr_id of a send; what is below counts those of the queue. */
#define SEND_ID (1ull << 63)
/* How long receives may take to complete that are on their way when the device goes. */
#define LAST_MS 200

/* What the two tell each other. */
struct card {
	uint32_t lid;
	uint32_t qpn;
	uint32_t psn;
	uint32_t rkey;
	uint64_t addr;
	union ibv_gid gid;
};

static struct device device;
static struct end end;
static uint8_t *bytes;
static struct ibv_mr *mr;
static struct card mine, theirs;
static struct rng rng;
static int sends, recvs;
/* How many have been posted in all, and how many have completed. */
static uint64_t posted_sends, posted_recvs, done_sends, done_recvs;
static uint64_t done;
/* When the last completion came, and for how long there was none before it. */
static uint64_t taken_ms, silence_ms;

static void peer_gone_early(void)
{
	printf("endless: %s: the peer died before there was traffic\n",
	       device.name);
	exit(0);
}

/* A connected socket: of the one that listens, or the one that calls. */
static int meet(const char *path, bool listens)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	uint64_t limit = now_ms() + MEET_MS;

	check(fd >= 0, "socket: %m");
	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	if (listens) {
		unlink(path);
		check(!bind(fd, (struct sockaddr *)&address, sizeof(address)) &&
			      !listen(fd, 1),
		      "%s: %m", path);
		if (poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1,
			 MEET_MS) != 1)
			peer_gone_early();
		return accept(fd, NULL, NULL);
	}
	while (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		if (now_ms() >= limit)
			peer_gone_early();
		usleep(10000);
	}
	return fd;
}

/* Sends what is mine and takes what is theirs. */
static void exchange(int fd, const void *out, void *in, size_t size)
{
	if (send(fd, out, size, MSG_NOSIGNAL) != (ssize_t)size ||
	    recv(fd, in, size, MSG_WAITALL) != (ssize_t)size)
		peer_gone_early();
}

/* Each completion is of the oldest of its queue. */
static void account(const struct ibv_wc *wc)
{
	bool is_send = wc->wr_id & SEND_ID;
	uint64_t index = wc->wr_id & ~SEND_ID;
	uint64_t due = is_send ? done_sends++ : done_recvs++;

	check(index == due, "%s %llu completes, and %llu was due",
	      is_send ? "send" : "receive", (unsigned long long)index,
	      (unsigned long long)due);
	if (is_send)
		sends--;
	else
		recvs--;
	check(sends >= 0 && recvs >= 0, "a completion too many");
	done++;
}

static void device_gone(const char *how)
{
	struct ibv_wc wc;

	/* Sends have to, however busy the one is that removes the device. */
	while (await(end.send_cq, &wc, sends ? STALL_MS : LAST_MS))
		account(&wc);
	/* Receives may have been posted to a queue that nobody looks at any more. */
	check(!sends, "%d sends are left of a device that is gone (%s)", sends, how);
	printf("endless: %s: the device is gone (%s) after %llu completions, with %d sends and %d receives\n",
	       device.name, how, (unsigned long long)done, sends, recvs);
	exit(0);
}

static void post_one_recv(void)
{
	struct ibv_sge sge = { (uintptr_t)bytes, SLOT, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = posted_recvs++,
				  .sg_list = &sge,
				  .num_sge = 1 };

	post_recv(&end, &wr);
	recvs++;
}

static void post_one_send(void)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
		IBV_WR_RDMA_WRITE_WITH_IMM,
	};
	struct ibv_sge sge = { (uintptr_t)bytes + SLOT,
			       rng_below(&rng, 2) ? rng_below(&rng, SLOT) :
						    rng_below(&rng, 100),
			       mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = SEND_ID | posted_sends,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = ops[rng_below(&rng, ARRAY_SIZE(ops))],
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { theirs.addr + 2 * SLOT, theirs.rkey },
	};
	int error = ibv_post_send(end.qp, &wr, &bad);

	if (error == EIO || error == ENODEV)
		device_gone("post_send");
	check(!error, "post_send: %s", strerror(error));
	posted_sends++;
	sends++;
}

/* Whether the device has said that it is gone. */
static bool device_is_dead(void)
{
	struct pollfd fd = { .fd = device.context->async_fd,
			     .events = POLLIN };
	struct ibv_async_event event;

	if (poll(&fd, 1, 0) <= 0)
		return false;
	if (fd.revents & (POLLERR | POLLHUP))
		return true;
	if (ibv_get_async_event(device.context, &event))
		return errno == EIO;
	ibv_ack_async_event(&event);
	return event.event_type == IBV_EVENT_DEVICE_FATAL;
}

/* Takes a completion, however long it takes, and counts it. */
static void take(struct ibv_wc *wc)
{
	for (uint64_t limit = now_ms() + STALL_MS;;) {
		if (await(end.send_cq, wc, 100))
			break;
		if (device_is_dead())
			device_gone("event");
		check(now_ms() < limit,
		      "nothing for %d ms with %d sends and %d receives posted",
		      STALL_MS, sends, recvs);
	}
	account(wc);
	silence_ms = now_ms() - taken_ms;
	taken_ms += silence_ms;
}

/* Everything that is posted must come back, and nothing else. */
static void bury(const struct ibv_wc *first)
{
	struct ibv_wc wc;
	int flushed = 0;
	uint64_t silence = silence_ms;

	while (sends || recvs) {
		take(&wc);
		if (wc.status == IBV_WC_WR_FLUSH_ERR)
			flushed++;
		else
			printf("endless: %s: a %s ended after that: %s\n",
			       device.name,
			       wc.wr_id & SEND_ID ? "send" : "receive",
			       ibv_wc_status_str(wc.status));
	}
	check(!await(end.send_cq, &wc, 50), "a completion too many");
	printf("endless: %s: survived: %llu completions, then %s after %llu ms, then %d flushed\n",
	       device.name, (unsigned long long)done,
	       ibv_wc_status_str(first->status), (unsigned long long)silence,
	       flushed);
	end_destroy(&end);
	check(!ibv_dereg_mr(mr), "dereg_mr: %m");
	device_close(&device);
	exit(0);
}

static void traffic(void)
{
	taken_ms = now_ms();
	while (recvs < RECVS)
		post_one_recv();
	for (;;) {
		struct ibv_wc wc;

		while (sends < DEPTH)
			post_one_send();
		take(&wc);
		if (wc.status != IBV_WC_SUCCESS)
			bury(&wc);
		while (recvs < RECVS)
			post_one_recv();
	}
}

int main(int argc, char **argv)
{
	struct end_options options = {
		.type = IBV_QPT_RC,
		.send_depth = DEPTH,
		.recv_depth = RECVS,
		.sges = 1,
		.one_cq = true,
	};
	struct path_options path = default_path;
	char ready = 'r', other;
	struct end peer = {};
	struct device far = {};
	struct ibv_qp peer_qp = {};
	int fd;

	check(argc == 4 && (argv[1][0] == 'l' || argv[1][0] == 'c'),
	      "usage: endless listen|call SOCKET DEV[:PORT]");
	device_open(&device, argv[3]);
	fd = meet(argv[2], argv[1][0] == 'l');
	check(fd >= 0, "accept: %m");
	rng_seed(&rng, getpid());
	bytes = aligned_alloc(4096, 3 * SLOT);
	check(bytes, "out of memory");
	mr = ibv_reg_mr(device.pd, bytes, 3 * SLOT, ALL_ACCESS);
	check(mr, "reg_mr: %m");
	end_create(&end, &device, &options);
	end.psn = rng_next(&rng) & PSN_MASK;
	mine = (struct card){ device.port_attr.lid, end.qp->qp_num, end.psn,
			      mr->rkey, (uintptr_t)bytes, device.gid };
	exchange(fd, &mine, &theirs, sizeof(mine));
	far.port_attr.lid = theirs.lid;
	far.gid = theirs.gid;
	peer_qp.qp_num = theirs.qpn;
	peer = (struct end){ .device = &far, .qp = &peer_qp,
			     .psn = theirs.psn };
	/* Two seconds of silence: guests that look for bugs are slow, and the processor of the peer may stand still
	 * for one. */
	path.timeout = 17;
	path.retries = 3;
	end_to_init(&end, &path);
	end_to_rtr(&end, &peer, &path);
	end_to_rts(&end, &path);
	while (recvs < RECVS)
		post_one_recv();
	exchange(fd, &ready, &other, 1);
	printf("endless: %s: traffic\n", device.name);
	fflush(stdout);
	traffic();
}
