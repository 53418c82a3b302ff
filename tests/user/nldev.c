// SPDX-License-Identifier: GPL-2.0

#include "nldev.h"
#include "common.h"

#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct request {
	struct nlmsghdr header;
	char attrs[256];
};

typedef void (*handler)(const struct nlmsghdr *header, void *context);

static int fd = -1;

void nldev_open(void)
{
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	check(fd >= 0, "netlink: %m");
}

static struct request request_of(int command, int flags)
{
	return (struct request){ .header = {
		.nlmsg_len = NLMSG_HDRLEN,
		.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command),
		.nlmsg_flags = NLM_F_REQUEST | flags,
	} };
}

static void add_attr(struct request *request, int type, const void *data,
		     size_t length)
{
	struct nlattr *attr = (void *)((char *)request +
				       NLMSG_ALIGN(request->header.nlmsg_len));

	attr->nla_type = type;
	attr->nla_len = NLA_HDRLEN + length;
	memcpy((char *)attr + NLA_HDRLEN, data, length);
	request->header.nlmsg_len = NLMSG_ALIGN(request->header.nlmsg_len) +
				    NLA_ALIGN(attr->nla_len);
}

static void add_u32(struct request *request, int type, uint32_t value)
{
	add_attr(request, type, &value, sizeof(value));
}

/* What is left of an earlier question. */
static void forget(void)
{
	static char buffer[65536];

	while (recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT) >= 0 ||
	       errno == ENOBUFS || errno == ENOMEM)
		;
}

/* Asks, and hands each answer to `on_answer` until the last one. */
static int ask(const struct request *request, handler on_answer, void *context)
{
	static char buffer[65536];
	bool dump = request->header.nlmsg_flags & NLM_F_DUMP;

	forget();
	if (send(fd, request, request->header.nlmsg_len, 0) < 0)
		return errno;
	for (;;) {
		struct nlmsghdr *header = (void *)buffer;
		/* The kernel answers within the question, or has none. */
		ssize_t left = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);

		if (left < 0)
			return errno;
		for (; NLMSG_OK(header, (size_t)left);
		     header = NLMSG_NEXT(header, left)) {
			const struct nlmsgerr *error = NLMSG_DATA(header);

			if (header->nlmsg_type == NLMSG_ERROR)
				return -error->error;
			if (header->nlmsg_type == NLMSG_DONE)
				return 0;
			if (on_answer)
				on_answer(header, context);
			if (!dump)
				return 0;
		}
	}
}

#define for_each_attr(attr, first, bytes)                                     \
	for (const struct nlattr *attr = (first),                             \
				 *end_ = (const void *)((const char *)attr +  \
							(bytes));             \
	     attr < end_;                                                     \
	     attr = (const void *)((const char *)attr +                       \
				   NLA_ALIGN(attr->nla_len)))

static const void *payload(const struct nlattr *attr)
{
	return (const char *)attr + NLA_HDRLEN;
}

static int type_of(const struct nlattr *attr)
{
	return attr->nla_type & NLA_TYPE_MASK;
}

struct wanted {
	const char *name;
	int index;
};

static void on_device(const struct nlmsghdr *header, void *context)
{
	struct wanted *wanted = context;
	const char *name = "";
	uint32_t index = 0;

	for_each_attr(attr, NLMSG_DATA(header), header->nlmsg_len - NLMSG_HDRLEN) {
		if (type_of(attr) == RDMA_NLDEV_ATTR_DEV_INDEX)
			memcpy(&index, payload(attr), sizeof(index));
		else if (type_of(attr) == RDMA_NLDEV_ATTR_DEV_NAME)
			name = payload(attr);
	}
	if (!strcmp(name, wanted->name))
		wanted->index = index;
}

int nldev_index(const char *name)
{
	struct request request = request_of(RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
	struct wanted wanted = { .name = name, .index = -1 };
	int error = ask(&request, on_device, &wanted);

	check(!error, "list of devices: %s", strerror(error));
	return wanted.index;
}

/* An order. An acknowledgement might be what there is no memory for, so there is none but
 * of a failure. */
static int order(const struct request *request)
{
	int error = ask(request, NULL, NULL);

	return error == EAGAIN ? 0 : error;
}

int nldev_new_link(const char *name, const char *type, const char *netdev)
{
	struct request request = request_of(RDMA_NLDEV_CMD_NEWLINK, 0);

	add_attr(&request, RDMA_NLDEV_ATTR_DEV_NAME, name, strlen(name) + 1);
	add_attr(&request, RDMA_NLDEV_ATTR_LINK_TYPE, type, strlen(type) + 1);
	add_attr(&request, RDMA_NLDEV_ATTR_NDEV_NAME, netdev, strlen(netdev) + 1);
	return order(&request);
}

int nldev_delete_link(int index)
{
	struct request request = request_of(RDMA_NLDEV_CMD_DELLINK, 0);

	add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	return order(&request);
}

static void on_entry(const struct nlattr *entry, struct nldev_counts *counts)
{
	int kind = counts->kinds++;

	check(kind < NLDEV_KINDS, "more kinds of objects than are known");
	for_each_attr(attr, payload(entry), entry->nla_len - NLA_HDRLEN) {
		if (type_of(attr) == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME)
			snprintf(counts->names[kind], sizeof(counts->names[kind]),
				 "%s", (const char *)payload(attr));
		else if (type_of(attr) == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR)
			memcpy(&counts->counts[kind], payload(attr),
			       sizeof(counts->counts[kind]));
	}
}

static void on_summary(const struct nlmsghdr *header, void *context)
{
	for_each_attr(attr, NLMSG_DATA(header), header->nlmsg_len - NLMSG_HDRLEN) {
		if (type_of(attr) != RDMA_NLDEV_ATTR_RES_SUMMARY)
			continue;
		for_each_attr(entry, payload(attr), attr->nla_len - NLA_HDRLEN)
			on_entry(entry, context);
	}
}

struct nldev_counts nldev_count(int index)
{
	struct request request = request_of(RDMA_NLDEV_CMD_RES_GET, 0);
	struct nldev_counts counts = { 0 };
	int error;

	add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	error = ask(&request, on_summary, &counts);
	check(!error, "number of objects: %s", strerror(error));
	check(counts.kinds, "no number of objects");
	return counts;
}
