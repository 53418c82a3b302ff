// SPDX-License-Identifier: GPL-2.0
/*
 * A process that hardly gets its processor any more sends to a queue pair of another one,
 * which has not asked for it and destroys the queue pair: that does not have to wait.
 */

#include "common.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 20
#define HOGS 8
#define BURST 1000
#define BYTES 8u
/* The sender has its processor alone, and then it has not. */
#define ALONE_US 30000
#define CROWDED_US 50000
/* Far more than it takes, and far less than until the sender gets its processor back. */
#define LIMIT_MS 1000

static const struct end_options options = {
	.type = IBV_QPT_UC,
	.send_depth = BURST,
	.recv_depth = 1,
	.sges = 1,
	.inline_bytes = BYTES,
};

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	check(!sched_setaffinity(0, sizeof(set), &set), "CPU %d: %m", cpu);
}

static pid_t fork_or_fail(void)
{
	pid_t child = fork();

	check(child >= 0, "fork: %m");
	return child;
}

static _Noreturn void hog(void)
{
	pin(0);
	for (;;)
		;
}

/* Goes on for ever: what is sent is dropped there, and complete. */
static _Noreturn void send_to(const struct end *peer, int told)
{
	static uint8_t bytes[BYTES];
	static struct ibv_send_wr list[BURST];
	struct ibv_sge sge = { .addr = (uintptr_t)bytes, .length = BYTES };
	const struct sched_param idle = { 0 };
	struct ibv_send_wr *bad;
	struct device device;
	struct end end;

	pin(0);
	device_open(&device, "sib0");
	end_create(&end, &device, &options);
	end_to_init(&end, &default_path);
	end_to_rtr(&end, peer, &default_path);
	end_to_rts(&end, &default_path);
	for (int i = 0; i < BURST; i++)
		list[i] = (struct ibv_send_wr){
			.next = i + 1 < BURST ? &list[i + 1] : NULL,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_INLINE,
			.sg_list = &sge,
			.num_sge = 1,
		};
	check(!sched_setscheduler(0, SCHED_IDLE, &idle), "SCHED_IDLE: %m");
	check(write(told, "!", 1) == 1, "pipe: %m");
	/* A worker may still be at the last ones, so that there is no room. */
	for (;;)
		ibv_post_send(end.qp, list, &bad);
}

static void signal_all(const pid_t *hogs, int number)
{
	for (int i = 0; i < HOGS; i++)
		check(!kill(hogs[i], number), "kill: %m");
}

/* How long it takes to destroy what is sent to, in ms. */
static uint64_t destroy_one(struct device *device, const pid_t *hogs)
{
	struct end end;
	uint64_t begun, took;
	int told[2];
	pid_t sender;
	char byte;

	end_create(&end, device, &options);
	end_to_init(&end, &default_path);
	check(!pipe(told), "pipe: %m");
	sender = fork_or_fail();
	if (!sender)
		send_to(&end, told[1]);
	close(told[1]);
	check(read(told[0], &byte, 1) == 1, "nobody sends");
	close(told[0]);
	usleep(ALONE_US);
	signal_all(hogs, SIGCONT);
	usleep(CROWDED_US);
	begun = now_ms();
	end_destroy(&end);
	took = now_ms() - begun;
	signal_all(hogs, SIGSTOP);
	kill(sender, SIGKILL);
	waitpid(sender, NULL, 0);
	return took;
}

int main(void)
{
	uint64_t longest = 0;
	struct device device;
	pid_t hogs[HOGS];

	for (int i = 0; i < HOGS; i++) {
		hogs[i] = fork_or_fail();
		if (!hogs[i])
			hog();
	}
	signal_all(hogs, SIGSTOP);
	pin(1);
	device_open(&device, "sib1");
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t took = destroy_one(&device, hogs);

		if (took > longest)
			longest = took;
	}
	signal_all(hogs, SIGKILL);
	while (wait(NULL) > 0)
		;
	device_close(&device);
	check(longest < LIMIT_MS, "to destroy a queue pair took %llu ms",
	      (unsigned long long)longest);
	printf("captive: %d rounds, %llu ms at most\n", ROUNDS,
	       (unsigned long long)longest);
	return 0;
}
