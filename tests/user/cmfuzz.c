// SPDX-License-Identifier: GPL-2.0
/*
 * Nonsense for sib_cm, from both sides: datagrams of connection management that are
 * random, forged, changed and repeated, to each port and from each; and orders to
 * /dev/sib_cm with random structures and bad pointers, by threads and forks, some of
 * which close the file meanwhile. Those who do it die in the midst of it. A connection
 * of this program, named in datagrams that are not from its peer, notices nothing.
 *
 *     cmfuzz DEVICE DEVICE SECONDS SEED PACKETS
 *
 * PACKETS is tests/vm/packets/cm.hex: a packet of each message, in hexadecimal digits.
 */

#include "side.h"
#include "umad.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVICE 0x02ff0000000fa000ull
/* Those that orders are about; behind them those of others. */
#define SERVICES 64
/* How long a child does it, and how long it may take to die. */
#define LIFE_MS 2500
#define DEATH_MS 60000
/* LRH, BTH and DETH. */
#define PACKET_HEADERS 28u
#define MESSAGES 11
#define IDS 8
/* So that what is sent is also received in time. */
#define BURST 16
#define PAUSE_US 4000
#define THREADS 3
#define REJECTED 3
#define RESPONSE 16
#define REQ 0x10
#define DREQ 0x15
#define LAP 0x19

static struct side active, passive;
static struct sib_cm_attr_id witness;
static uint8_t messages[MESSAGES][MAD_BYTES];
static const char *names[2];
static struct rng rng;
static struct {
	uint64_t datagrams;
	uint64_t orders;
	uint64_t done;
} *counts;

static void read_messages(const char *path)
{
	FILE *file = fopen(path, "r");
	unsigned int byte;
	char line[2048];

	check(file, "%s: %m", path);
	for (int i = 0; i < MESSAGES; i++) {
		check(fgets(line, sizeof(line), file), "%s is short", path);
		for (uint32_t at = 0; at < MAD_BYTES; at++) {
			const char *digits = line + 2 * (PACKET_HEADERS + at);

			check(sscanf(digits, "%2x", &byte) == 1,
			      "%s: line %d", path, i);
			messages[i][at] = byte;
		}
	}
	fclose(file);
}

/* Numbers that tend to be special somewhere. */
static uint64_t odd_number(struct rng *from)
{
	static const uint64_t odd[] = {
		0,	    1,		2,	    7,	    0xff,
		0xffff,	    0xffffff,	0x80000000, ~0u,    ~0ull,
		1ull << 63, 0xc000,	0x1000000,  0x1f,   0x20,
	};

	return rng_once_in(from, 2) ? rng_next(from) :
				      odd[rng_below(from, ARRAY_SIZE(odd))];
}

/* The datagrams. */

/* One of the messages, with IDs of a connection that its sender has. */
static void compose(uint8_t mad[MAD_BYTES], uint64_t service,
		    const struct sib_cm_attr_id *ids)
{
	uint8_t *data = mad + MAD_HEADER;

	memcpy(mad, messages[rng_below(&rng, MESSAGES)], MAD_BYTES);
	if (rng_once_in(&rng, 8))
		mad[17] = REQ + rng_below(&rng, 16);
	mad_put(data, ids->local_comm_id, 4);
	if (mad[17] == REQ) {
		mad_put(data + 8, service, 8);
		if (rng_once_in(&rng, 2))
			mad_put(data, rng_next(&rng), 4);
	} else {
		mad_put(data + 4, ids->remote_comm_id, 4);
	}
	if (mad[17] == DREQ)
		mad_put(data + 8, ids->remote_qpn, 3);
	if (mad[17] == LAP)
		mad_put(data + 12, ids->remote_qpn, 3);
	/* Also the same ones again and again, and a few more. */
	mad_put(mad + 12, rng_once_in(&rng, 4) ? rng_next(&rng) :
						 rng_below(&rng, 16), 4);
}

static void damage(uint8_t mad[MAD_BYTES])
{
	for (uint32_t i = rng_below(&rng, 5); i > 0; i--) {
		uint32_t at = rng_once_in(&rng, 8) ?
				      rng_below(&rng, MAD_BYTES) :
				      MAD_HEADER + rng_below(&rng, 140);

		mad[at] = odd_number(&rng);
	}
	/* Of another class it would be for somebody else. */
	mad[1] = 7;
}

static struct sib_cm_attr_id reversed(struct sib_cm_attr_id ids, uint32_t qpn)
{
	uint32_t local = ids.local_comm_id;

	ids.local_comm_id = ids.remote_comm_id;
	ids.remote_comm_id = local;
	ids.remote_qpn = qpn;
	return ids;
}

/* Whatever has been told is answered by something. */
static void react(struct side *side)
{
	static const unsigned long answers[] = {
		SIB_CM_IOC_SEND_REP,  SIB_CM_IOC_SEND_REJ,
		SIB_CM_IOC_SEND_MRA,  SIB_CM_IOC_SEND_RTU,
		SIB_CM_IOC_SEND_DREP, SIB_CM_IOC_SEND_DREQ,
		SIB_CM_IOC_SEND_APR,  SIB_CM_IOC_SEND_SIDR_REP,
		SIB_CM_IOC_DESTROY_ID,
	};
	struct sib_cm_event event;

	while (has_event(side, 0) &&
	       !command(side, SIB_CM_IOC_GET_EVENT, &event)) {
		union {
			uint8_t bytes[512];
			struct sib_cm_send_rep rep;
			struct sib_cm_send_apr apr;
			uint32_t id;
		} it = {};
		unsigned long number =
			answers[rng_below(&rng, ARRAY_SIZE(answers))];

		if (number == SIB_CM_IOC_SEND_REP)
			it.rep.qpn = rng_next(&rng) & 0x3fffff;
		if (number == SIB_CM_IOC_SEND_APR)
			it.apr.generation = event.generation;
		it.id = event.id;
		command(side, number, &it);
	}
}

static void send_nonsense(uint64_t service)
{
	struct umad umads[2][PORTS + 1];
	struct sib_cm_attr_id here, there;
	uint8_t last[MAD_BYTES] = {};

	for (int i = 0; i < 2; i++)
		for (int port = 1; port <= PORTS; port++)
			umad_open(&umads[i][port], names[i], port);
	side_open(&active, names[0]);
	side_open(&passive, names[1]);
	listen_on(&passive, service, SIB_CM_CONNECTIONS, 0);
	listen_on(&passive, service, SIB_CM_DATAGRAMS, 0);
	connect_bare(&active, &passive, service);
	here = attributes(&active);
	there = attributes(&passive);
	for (;;) {
		int at = rng_below(&rng, 2), port = 1 + rng_below(&rng, PORTS);
		struct side *to = at ? &active : &passive;
		struct sib_cm_attr_id ids = at ? there : here;
		bool is_witness = rng_once_in(&rng, 4);
		uint8_t mad[MAD_BYTES];

		if (is_witness) {
			/* From the wrong port, or with a wrong ID. */
			ids = at ? reversed(witness, 0) : witness;
			if (rng_once_in(&rng, 2))
				port = 2;
			else
				ids.local_comm_id = rng_next(&rng);
		}
		compose(mad, rng_once_in(&rng, 2) ? service : SERVICE + rng_below(&rng, SERVICES),
			&ids);
		damage(mad);
		if (!is_witness) {
			if (rng_once_in(&rng, 8))
				memcpy(mad, last, sizeof(mad));
			memcpy(last, mad, sizeof(mad));
		}
		umad_send(&umads[at][port],
			  to->lids[1 + rng_below(&rng, PORTS)], mad);
		if (!(++counts->datagrams % BURST)) {
			react(&active);
			react(&passive);
			usleep(PAUSE_US);
		}
	}
}

/* The orders. */

static int file;
static bool may_wait;
static void *readable;
static volatile uint32_t newest;

/* Orders that are right, or nearly so. */
union order {
	uint8_t bytes[512];
	uint64_t words[64];
	uint32_t id;
	struct sib_cm_create_id create;
	struct sib_cm_listen listen;
	struct sib_cm_send_req req;
	struct sib_cm_send_rep rep;
	struct sib_cm_send_lap lap;
	struct sib_cm_send_apr apr;
	struct sib_cm_send_sidr_req sidr_req;
	struct sib_cm_init_qp_attr attr;
	struct sib_cm_notify notify;
};

static unsigned long right_order(struct rng *own, union order *it)
{
	static const unsigned long plain[] = {
		SIB_CM_IOC_DESTROY_ID, SIB_CM_IOC_ATTR_ID,
		SIB_CM_IOC_SEND_RTU,   SIB_CM_IOC_SEND_REJ,
		SIB_CM_IOC_SEND_MRA,   SIB_CM_IOC_SEND_DREQ,
		SIB_CM_IOC_SEND_DREP,  SIB_CM_IOC_GET_EVENT,
		SIB_CM_IOC_SEND_SIDR_REP,
	};
	uint32_t id = newest - rng_below(own, IDS);
	uint64_t service = SERVICE + rng_below(own, SERVICES);
	uint8_t port = 1 + rng_below(own, PORTS);

	memset(it, 0, sizeof(*it));
	switch (rng_below(own, 18)) {
	case 0:
	case 1:
		it->create.guid = rng_once_in(own, 2) ? active.guid : passive.guid;
		return SIB_CM_IOC_CREATE_ID;
	case 2:
		it->listen = (struct sib_cm_listen){
			.service_id = service,
			.id = id,
			.kind = rng_below(own, 2),
		};
		return SIB_CM_IOC_LISTEN;
	case 3:
		it->req = (struct sib_cm_send_req){
			.service_id = service,
			.id = id,
			.qpn = rng_next(own) & 0x3fffff,
			.pkey = 0xffff,
			.path_mtu = IBV_MTU_4096,
			.remote_response_timeout = RESPONSE,
			.local_response_timeout = RESPONSE,
			.max_cm_retries = rng_below(own, 3),
			.has_alternate = rng_below(own, 2),
			.primary = path_between(&active, &passive, port),
		};
		if (it->req.has_alternate)
			it->req.alternate = path_between(&active, &passive,
							 PORTS + 1 - port);
		return SIB_CM_IOC_SEND_REQ;
	case 4:
		it->rep = (struct sib_cm_send_rep){
			.id = id, .qpn = rng_next(own) & 0x3fffff
		};
		return SIB_CM_IOC_SEND_REP;
	case 5:
		it->lap = (struct sib_cm_send_lap){
			.id = id,
			.response_timeout = RESPONSE,
			.retries = rng_below(own, 3),
			.path = path_between(&active, &passive, port),
		};
		return SIB_CM_IOC_SEND_LAP;
	case 6:
		it->apr = (struct sib_cm_send_apr){
			.id = id,
			.generation = rng_below(own, 4),
			.status = rng_below(own, 14),
		};
		return SIB_CM_IOC_SEND_APR;
	case 7:
		it->sidr_req = (struct sib_cm_send_sidr_req){
			.service_id = service,
			.id = id,
			.pkey = 0xffff,
			.response_timeout = RESPONSE,
			.retries = rng_below(own, 3),
			.path = path_between(&active, &passive, port),
		};
		return SIB_CM_IOC_SEND_SIDR_REQ;
	case 8:
		it->attr = (struct sib_cm_init_qp_attr){
			.id = id, .attr.qp_state = rng_below(own, 6)
		};
		return SIB_CM_IOC_INIT_QP_ATTR;
	case 9:
		it->notify = (struct sib_cm_notify){
			.id = id, .fact = rng_below(own, 5)
		};
		return SIB_CM_IOC_NOTIFY;
	default:
		it->id = id;
		return plain[rng_below(own, ARRAY_SIZE(plain))];
	}
}

/* What an order may fail with: nothing else says what is wrong. */
static void check_error(unsigned long number, int error)
{
	static const int known[] = {
		0,	EINVAL, EFAULT, EAGAIN,	    ENOTTY, EBUSY, ESTALE,
		EACCES, ENOENT, ENODEV, EADDRINUSE, EBADF,  EINTR, ENOSPC,
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (error == known[i])
			return;
	fail("order %#lx: %s", number, strerror(error));
}

static void give_order(struct rng *own, int fd, union order *it)
{
	unsigned long number = right_order(own, it);
	void *argument = it;
	int error;

	for (uint32_t i = rng_below(own, 4); i > 0; i--)
		it->words[rng_below(own, 40)] = odd_number(own);
	if (rng_once_in(own, 16))
		it->id = newest - rng_below(own, IDS);
	switch (rng_below(own, 64)) {
	case 0:
		/* Another direction or size. */
		number ^= rng_next(own) & 0xffff0000;
		break;
	case 1:
		number = rng_next(own);
		break;
	case 2:
		argument = (void *)(uintptr_t)odd_number(own);
		break;
	case 3:
		/* It may be read, and not written. */
		argument = readable;
		break;
	case 4:
		/* It ends where memory does. */
		argument = (char *)readable + 4096 - rng_below(own, 64);
		break;
	case 5:
		argument = (void *)0xffff888000000000ull;
		break;
	}
	if (number == SIB_CM_IOC_GET_EVENT && may_wait)
		return;
	error = ioctl(fd, number, argument) < 0 ? errno : 0;
	check_error(number, error);
	__atomic_add_fetch(&counts->orders, 1, __ATOMIC_RELAXED);
	if (error)
		return;
	__atomic_add_fetch(&counts->done, 1, __ATOMIC_RELAXED);
	if (number == SIB_CM_IOC_CREATE_ID && argument == it)
		newest = it->create.id;
}

/* Others use the file meanwhile. */
static void replace_file(int fd)
{
	int other = open("/dev/sib_cm", O_RDWR | O_CLOEXEC |
						(may_wait ? 0 : O_NONBLOCK));

	check(other >= 0, "/dev/sib_cm: %m");
	check(dup2(other, fd) == fd, "dup2: %m");
	close(other);
}

static void use_in_fork(struct rng *own, int fd)
{
	pid_t child = fork();
	int status;

	if (!child) {
		union order it;

		for (int i = 0; i < 20; i++)
			give_order(own, fd, &it);
		_exit(0);
	}
	check(child >= 0, "fork: %m");
	if (rng_once_in(own, 2))
		kill(child, SIGKILL);
	check(waitpid(child, &status, 0) == child && !WEXITSTATUS(status),
	      "status %#x of a fork", status);
}

static void misuse(struct rng *own, int fd)
{
	struct pollfd polled = { .fd = fd, .events = rng_next(own) };
	char byte = 0;

	poll(&polled, 1, 0);
	if (!may_wait)
		check(read(fd, &byte, 1) < 0 && write(fd, &byte, 1) < 0,
		      "bytes of /dev/sib_cm");
	check(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED,
	      "pages of /dev/sib_cm");
}

static void *give_orders(void *argument)
{
	struct rng own = *(struct rng *)argument;
	union order it;

	for (;;) {
		switch (rng_below(&own, 512)) {
		case 0:
			replace_file(file);
			break;
		case 1:
			use_in_fork(&own, file);
			break;
		case 2:
			misuse(&own, file);
			break;
		default:
			give_order(&own, file, &it);
		}
	}
	return NULL;
}

static void order_nonsense(void)
{
	struct rng seeds[THREADS];
	struct sib_cm_event event;
	pthread_t thread;

	side_open(&active, names[0]);
	side_open(&passive, names[1]);
	may_wait = rng_once_in(&rng, 2);
	readable = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(readable != MAP_FAILED && !munmap((char *)readable + 4096, 4096),
	      "mmap: %m");
	file = open("/dev/sib_cm", O_RDWR | O_CLOEXEC | (may_wait ? 0 : O_NONBLOCK));
	check(file >= 0, "/dev/sib_cm: %m");
	for (int i = 0; i < THREADS; i++) {
		rng_seed(&seeds[i], rng_next(&rng));
		check(!pthread_create(&thread, NULL, give_orders, &seeds[i]),
		      "pthread_create");
	}
	/* Nobody wakes it but an event, and death. */
	for (;;)
		if (ioctl(file, SIB_CM_IOC_GET_EVENT, &event))
			usleep(1000);
}

/* The parent. */

static pid_t begin(bool with_datagrams, int number, uint64_t seed)
{
	pid_t child = fork();

	check(child >= 0, "fork: %m");
	if (!child) {
		rng_seed(&rng, seed);
		if (with_datagrams)
			send_nonsense(SERVICE + SERVICES + number);
		else
			order_nonsense();
	}
	return child;
}

/* It has no end of its own. */
static void bury(pid_t child)
{
	uint64_t due = now_ms() + DEATH_MS;
	int status;

	kill(child, SIGKILL);
	while (!waitpid(child, &status, WNOHANG)) {
		check(now_ms() < due, "a child does not die");
		usleep(10000);
	}
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
	      "status %#x of a child", status);
}

/* The witness is as it was, and does what it is to do. */
static void examine(void)
{
	struct sib_cm_send_lap lap = {
		.id = active.id,
		/* 1.07 s. */
		.response_timeout = 18,
		.retries = 15,
		.path = path_between(&active, &passive, 2),
	};
	struct sib_cm_send_apr apr = { .id = passive.id, .status = REJECTED };
	struct sib_cm_attr_id now = attributes(&active);
	struct sib_cm_event event;

	check(!memcmp(&now, &witness, sizeof(now)), "the witness is in state %u",
	      now.state);
	order(&active, SIB_CM_IOC_SEND_LAP, &lap);
	event = expect_told(&passive, SIB_CM_LAP_RECEIVED);
	apr.generation = event.generation;
	order(&passive, SIB_CM_IOC_SEND_APR, &apr);
	event = expect_told(&active, SIB_CM_APR_RECEIVED);
	check(event.status == REJECTED, "status %u", event.status);
	check(!has_event(&active, 0) && !has_event(&passive, 0),
	      "the witness has been told something");
}

int main(int argc, char **argv)
{
	uint32_t listener;
	uint64_t due, seed;
	int rounds = 0;

	check(argc == 6, "usage: cmfuzz DEVICE DEVICE SECONDS SEED PACKETS");
	names[0] = argv[1];
	names[1] = argv[2];
	seed = strtoull(argv[4], NULL, 0);
	read_messages(argv[5]);
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(counts != MAP_FAILED, "mmap: %m");
	side_open(&active, argv[1]);
	side_open(&passive, argv[2]);
	listener = listen_on(&passive, SERVICE + SERVICES, SIB_CM_CONNECTIONS, 0);
	connect_bare(&active, &passive, SERVICE + SERVICES);
	witness = attributes(&active);
	due = now_ms() + strtoull(argv[3], NULL, 0) * 1000;
	while (now_ms() < due) {
		pid_t children[] = {
			begin(true, 1 + rounds % 64, seed + 2 * rounds),
			begin(false, 0, seed + 2 * rounds + 1),
		};

		rounds++;
		usleep(LIFE_MS * 1000);
		examine();
		for (size_t i = 0; i < ARRAY_SIZE(children); i++)
			bury(children[i]);
		printf("seed %llu: %llu datagrams, %llu orders, %llu of them done\n",
		       (unsigned long long)seed + 2 * rounds - 2,
		       (unsigned long long)counts->datagrams,
		       (unsigned long long)counts->orders,
		       (unsigned long long)counts->done);
		fflush(stdout);
	}
	check(counts->datagrams && counts->done, "nothing has been sent or done");
	part_bare(&active, &passive);
	destroy(&passive, listener);
	side_close(&active);
	side_close(&passive);
	printf("%d rounds\n", rounds);
	return 0;
}
