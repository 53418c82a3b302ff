// SPDX-License-Identifier: GPL-2.0
/*
 * A program in a memory cgroup, which has objects made: what the kernel needs for them is charged to
 * it, and given back.
 *
 *     hoard DEVICE CGROUP KIND COUNT BYTES
 *
 * COUNT objects of KIND take at least BYTES of the kernel each. COUNT 0 is for as many as there is room
 * for below memory.max, and then ENOMEM.
 */

#include "common.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <rdma/sib_cm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define USAGE "usage: hoard DEVICE CGROUP cq|srq|qp|mr|mw|ah|pd|listener COUNT BYTES"
#define MOST 20000
#define DUE_MS 20000
/*
 * What memory.stat says may lack the last 254 pages of two processors until the kernel sums up, every
 * two seconds (FLUSH_TIME of mm/memcontrol.c).
 */
#define SUMMED_UP_MS 3000
/* What is free need not be uncharged at once, nor what others than the objects have taken. */
#define SLACK (1u << 20)
/* One list of so many pages each. */
#define MR_BYTES (4u << 20)

static struct device device;
static const char *cgroup;
static struct ibv_cq *cq;
static void *memory;
static void *objects[MOST];

static FILE *control(const char *file, const char *mode)
{
	char path[200];
	FILE *stream;

	snprintf(path, sizeof(path), "%s/%s", cgroup, file);
	stream = fopen(path, mode);
	check(stream, "%s: %m", path);
	return stream;
}

static uint64_t limit(void)
{
	FILE *in = control("memory.max", "r");
	uint64_t bytes;

	check(fscanf(in, "%lu", &bytes) == 1, "there is no limit");
	fclose(in);
	return bytes;
}

/* Bytes of the kernel that are charged. */
static uint64_t charged(void)
{
	FILE *in = control("memory.stat", "r");
	uint64_t bytes = 0;
	char line[200];

	while (fgets(line, sizeof(line), in) &&
	       sscanf(line, "kernel %lu", &bytes) != 1)
		;
	fclose(in);
	return bytes;
}

static void enter(void)
{
	FILE *out = control("cgroup.procs", "w");

	fprintf(out, "%d\n", getpid());
	check(!fclose(out), "no way into the cgroup: %m");
}

static void *make_cq(void)
{
	return ibv_create_cq(device.context, 65000, NULL, NULL, 0);
}

static int end_cq(void *object)
{
	return ibv_destroy_cq(object);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16000,
						    .max_sge = 8 } };

	return ibv_create_srq(device.pd, &init);
}

static int end_srq(void *object)
{
	return ibv_destroy_srq(object);
}

static void *make_qp(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 4000, .max_send_sge = 16,
			 .max_recv_wr = 4000, .max_recv_sge = 4 },
	};

	return ibv_create_qp(device.pd, &init);
}

static int end_qp(void *object)
{
	return ibv_destroy_qp(object);
}

static void *make_mr(void)
{
	return ibv_reg_mr(device.pd, memory, MR_BYTES, IBV_ACCESS_LOCAL_WRITE);
}

static int end_mr(void *object)
{
	return ibv_dereg_mr(object);
}

static void *make_mw(void)
{
	return ibv_alloc_mw(device.pd, IBV_MW_TYPE_1);
}

static int end_mw(void *object)
{
	return ibv_dealloc_mw(object);
}

static void *make_ah(void)
{
	struct ibv_ah_attr attr = { .dlid = 1, .port_num = 1 };

	return ibv_create_ah(device.pd, &attr);
}

static int end_ah(void *object)
{
	return ibv_destroy_ah(object);
}

static void *make_pd(void)
{
	return ibv_alloc_pd(device.context);
}

static int end_pd(void *object)
{
	return ibv_dealloc_pd(object);
}

static int cm = -1;

static int end_listener(void *object)
{
	struct sib_cm_destroy_id destroy = { .id = (uintptr_t)object };

	return ioctl(cm, SIB_CM_IOC_DESTROY_ID, &destroy) ? errno : 0;
}

static void *make_listener(void)
{
	struct sib_cm_create_id create = { .guid = be64toh(device.attr.node_guid) };
	struct sib_cm_listen listen = { .kind = SIB_CM_CONNECTIONS };
	void *object;

	if (cm < 0)
		cm = open("/dev/sib_cm", O_RDWR);
	check(cm >= 0, "/dev/sib_cm: %m");
	if (ioctl(cm, SIB_CM_IOC_CREATE_ID, &create))
		return NULL;
	object = (void *)(uintptr_t)create.id;
	listen.id = create.id;
	listen.service_id = 0x7000000000000000 + create.id;
	if (!ioctl(cm, SIB_CM_IOC_LISTEN, &listen))
		return object;
	end_listener(object);
	return NULL;
}

static const struct kind {
	const char *name;
	void *(*make)(void);
	int (*end)(void *);
} kinds[] = {
	{ "cq", make_cq, end_cq }, { "srq", make_srq, end_srq },
	{ "qp", make_qp, end_qp }, { "mr", make_mr, end_mr },
	{ "mw", make_mw, end_mw }, { "ah", make_ah, end_ah },
	{ "pd", make_pd, end_pd }, { "listener", make_listener, end_listener },
};

static const struct kind *kind_called(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	fail(USAGE);
}

/* Returns how many there are. */
static unsigned int fill(const struct kind *kind, unsigned int most)
{
	unsigned int count = 0;

	while (count < most && (objects[count] = kind->make()))
		count++;
	return count;
}

static void empty(const struct kind *kind, unsigned int count)
{
	while (count) {
		int error = kind->end(objects[--count]);

		check(!error, "the end of a %s: %s", kind->name, strerror(error));
	}
}

static void to_the_limit(const struct kind *kind, uint64_t bytes)
{
	uint64_t most = limit() / bytes;
	unsigned int first, second;

	first = fill(kind, MOST < most ? MOST : most + 1);
	check(first <= most, "%u %ss of %lu bytes, and more", first, kind->name, bytes);
	check(errno == ENOMEM, "the refusal: %m");
	check(first > most / 4, "%u %ss of %lu", first, kind->name, most);
	empty(kind, first);
	second = fill(kind, MOST);
	empty(kind, second);
	printf("hoard: %u %ss, and again %u\n", first, kind->name, second);
	check(second + 1 >= first, "they have left something");
}

static void counted(const struct kind *kind, unsigned int count, uint64_t bytes)
{
	uint64_t before, during, after, due;

	/* Tables that stay are made now. */
	check(fill(kind, count) == count, "a %s: %m", kind->name);
	empty(kind, count);
	due = now_ms() + SUMMED_UP_MS;
	do
		before = charged();
	while (now_ms() < due);
	check(fill(kind, count) == count, "a %s: %m", kind->name);
	due = now_ms() + DUE_MS;
	do
		during = charged();
	while (during < before + count * bytes && now_ms() < due);
	empty(kind, count);
	due = now_ms() + DUE_MS;
	do
		after = charged();
	while (after > before + SLACK && now_ms() < due);
	printf("hoard: %u %ss: %lu bytes, %lu, %lu\n", count, kind->name,
	       before, during, after);
	check(during >= before + count * bytes, "not all is charged");
	check(after <= before + SLACK, "not all is given back");
}

int main(int argc, char **argv)
{
	const struct kind *kind;
	unsigned long count, bytes;

	check(argc == 6, USAGE);
	cgroup = argv[2];
	kind = kind_called(argv[3]);
	count = strtoul(argv[4], NULL, 0);
	bytes = strtoul(argv[5], NULL, 0);
	check(count <= MOST && bytes, USAGE);
	device_open(&device, argv[1]);
	cq = ibv_create_cq(device.context, 1, NULL, NULL, 0);
	check(cq, "a CQ: %m");
	memory = mmap(NULL, MR_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	check(memory != MAP_FAILED, "mmap: %m");
	enter();
	if (count)
		counted(kind, count, bytes);
	else
		to_the_limit(kind, bytes);
	check(!ibv_destroy_cq(cq), "destroy_cq");
	device_close(&device);
	return 0;
}
