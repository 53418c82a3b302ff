// SPDX-License-Identifier: GPL-2.0
/*
 * Commands of /dev/sib_cm that are wrong: they fail, and do no harm to others.
 */

#include "connect.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of rdma_cm, and of ib_cm's own. */
#define RDMA_CM_SERVICE 0x0000000001061234ull
#define IB_CM_SERVICE 0x0200000000000001ull
#define NOISE 20000
#define IDS 8
#define UNTOLD_SERVICE (SERVICE + 3)
#define UNTOLD 5000

void test_arguments(uint32_t listener)
{
	struct sib_cm_create_id create = { .guid = active.guid ^ 1 };
	struct sib_cm_listen listen = { .service_id = SERVICE + 2,
					.id = listener };
	struct sib_cm_destroy_id none = { .id = 0xfffffff };
	struct sib_cm_send_req req;
	struct sib_cm_send rtu;
	struct sib_cm_event event;
	uint32_t id = new_id(&active, 0);

	check(command(&active, SIB_CM_IOC_CREATE_ID, &create) == ENODEV,
	      "an identifier of no HCA");
	create.guid ^= 1;
	create.reserved = 1;
	check(command(&active, SIB_CM_IOC_CREATE_ID, &create) == EINVAL,
	      "what is reserved is ignored");
	check(command(&active, SIB_CM_IOC_DESTROY_ID, &none) == EINVAL,
	      "an identifier of nothing");
	check(command(&active, SIB_CM_IOC_DESTROY_ID, NULL) == EFAULT,
	      "a null pointer");
	check(command(&active, _IO(SIB_CM_IOC_MAGIC, 200), &none) == ENOTTY,
	      "an ioctl that there is not");
	check(command(&passive, SIB_CM_IOC_LISTEN, &listen) == EINVAL,
	      "an identifier listens twice");
	destroy(&active, listen_on(&active, SERVICE, SIB_CM_CONNECTIONS, EADDRINUSE));
	destroy(&active, listen_on(&active, RDMA_CM_SERVICE, SIB_CM_CONNECTIONS, EACCES));
	destroy(&active, listen_on(&active, IB_CM_SERVICE, SIB_CM_CONNECTIONS, EACCES));

	rtu = (struct sib_cm_send){ .id = id };
	check(command(&active, SIB_CM_IOC_SEND_RTU, &rtu) == EINVAL,
	      "RTU without a connection");
	req = request(id, "");
	req.private_data[0] = 1;
	check(command(&active, SIB_CM_IOC_SEND_REQ, &req) == EINVAL,
	      "private data beyond their length");
	req = request(id, "");
	req.private_data_len = 93;
	check(command(&active, SIB_CM_IOC_SEND_REQ, &req) == EINVAL,
	      "too much private data");
	req = request(id, "");
	req.qpn = 1 << 24;
	check(command(&active, SIB_CM_IOC_SEND_REQ, &req) == EINVAL,
	      "a queue pair number of 25 bits");
	req = request(id, "");
	req.pkey = 0x1234;
	check(command(&active, SIB_CM_IOC_SEND_REQ, &req) == ENOENT,
	      "a partition that the port is not in");
	req = request(id, "");
	req.primary.sl = 16;
	check(command(&active, SIB_CM_IOC_SEND_REQ, &req) == EINVAL,
	      "a service level of 5 bits");
	destroy(&active, id);

	check(!fcntl(active.fd, F_SETFL, O_NONBLOCK), "fcntl: %m");
	check(command(&active, SIB_CM_IOC_GET_EVENT, &event) == EAGAIN,
	      "an event of nothing");
	check(!fcntl(active.fd, F_SETFL, 0), "fcntl: %m");
}

static _Atomic uint32_t untold;

/* Has identifiers listen that nobody has been told of. */
static void *guess(void *side)
{
	struct sib_cm_listen it = { .service_id = UNTOLD_SERVICE };

	while ((it.id = untold))
		command(side, SIB_CM_IOC_LISTEN, &it);
	return NULL;
}

/* They cannot be written to where the program says, and nothing is left of them. */
void test_untold(void)
{
	struct sib_cm_create_id *create =
		mmap(NULL, sizeof(*create), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int kept = active.fd;
	pthread_t thread;

	check(create != MAP_FAILED, "mmap: %m");
	create->guid = active.guid;
	check(!mprotect(create, sizeof(*create), PROT_READ), "mprotect: %m");
	active.fd = open("/dev/sib_cm", O_RDWR | O_CLOEXEC);
	check(active.fd >= 0, "cannot open /dev/sib_cm: %m");
	/* The first ones of a file. */
	untold = 1;
	check(!pthread_create(&thread, NULL, guess, &active), "no thread");
	for (int i = 0; i < UNTOLD; i++, untold++)
		check(command(&active, SIB_CM_IOC_CREATE_ID, create) == EFAULT,
		      "an identifier is written");
	untold = 0;
	check(!pthread_join(thread, NULL), "the thread does not end");
	close(active.fd);
	active.fd = kept;
	check(!munmap(create, sizeof(*create)), "munmap: %m");
	destroy(&active,
		listen_on(&active, UNTOLD_SERVICE, SIB_CM_CONNECTIONS, 0));
}

void test_noise(uint32_t listener)
{
	static const unsigned long commands[] = {
		SIB_CM_IOC_CREATE_ID, SIB_CM_IOC_DESTROY_ID,
		SIB_CM_IOC_ATTR_ID,   SIB_CM_IOC_LISTEN,
		SIB_CM_IOC_NOTIFY,    SIB_CM_IOC_SEND_REQ,
		SIB_CM_IOC_SEND_REP,  SIB_CM_IOC_SEND_RTU,
		SIB_CM_IOC_SEND_REJ,  SIB_CM_IOC_SEND_MRA,
		SIB_CM_IOC_SEND_DREQ, SIB_CM_IOC_SEND_DREP,
		SIB_CM_IOC_SEND_LAP,  SIB_CM_IOC_SEND_APR,
		SIB_CM_IOC_GET_EVENT, SIB_CM_IOC_SEND_SIDR_REQ,
		SIB_CM_IOC_SEND_SIDR_REP, SIB_CM_IOC_INIT_QP_ATTR,
	};
	int kept = active.fd, done = 0;
	uint32_t last = 0;
	struct rng rng;

	rng_seed(&rng, listener);
	active.fd = open("/dev/sib_cm", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	check(active.fd >= 0, "cannot open /dev/sib_cm: %m");
	for (int i = 0; i < NOISE; i++) {
		struct sib_cm_send_req req = request(0, "");
		union {
			uint8_t bytes[512];
			uint32_t words[128];
			struct sib_cm_send_req req;
		} it;

		/* Some of them end identifiers. */
		if (!(i % IDS))
			last = new_id(&active, i);
		for (size_t n = 0; n < ARRAY_SIZE(it.words); n++)
			it.words[n] = rng_once_in(&rng, 2) ? 0 : rng_next(&rng);
		if (rng_once_in(&rng, 4))
			it.req = req;
		if (rng_once_in(&rng, 2))
			it.words[rng_once_in(&rng, 2) ? 0 : 2] =
				last - rng_below(&rng, IDS);
		done += !command(&active,
				 commands[rng_below(&rng, ARRAY_SIZE(commands))],
				 &it);
	}
	check(done, "no command is carried out");
	close(active.fd);
	active.fd = kept;
	nothing(&active);
}
