// SPDX-License-Identifier: GPL-2.0
/*
 * What the user wants of a connection, by the command line or line by line: each order is
 * carried out when the one before it is, and refused with a reason if it cannot be.
 */

#include "sibcm.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ORDERS 32
/* How long an order waits for what it needs. */
#define PATIENCE_US 10000000

enum kind { LOAD, MIGRATE, QUIT };

struct order {
	enum kind kind;
	int port;
	int remote;
	char text[24];
};

static struct order orders[MAX_ORDERS];
static int count;
/* Of the first one: when it is given up, 0 if it is new, and what was before it was sent. */
static uint64_t until;
static bool is_sent;
static uint64_t before;
static bool is_refused;
static bool is_input_over;

/* Says why an order is none, and that it is over. */
__attribute__((format(printf, 2, 3))) static bool
refuse(const char *order, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "sibcm: %s: ", order);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	is_refused = true;
	return true;
}

static int number_of_port(const char *word)
{
	char *end;
	unsigned long port = strtoul(word, &end, 10);

	return *word >= '0' && *word <= '9' && !*end && port < 256 ? port : 0;
}

/* Takes down the order that these words begin with. Returns how many they are, or 0. */
static int give_order(char **words, int number)
{
	struct order order = { .kind = QUIT };
	int used = 1;

	snprintf(order.text, sizeof(order.text), "%s", words[0]);
	if (!strcmp(words[0], "load")) {
		order.kind = LOAD;
		order.port = number > 1 ? number_of_port(words[1]) : 0;
		if (!order.port) {
			refuse(number > 1 ? words[1] : "load",
			       "no port: load PORT [PORT-OF-THE-PEER]");
			return 0;
		}
		order.remote = number > 2 ? number_of_port(words[2]) : 0;
		used = order.remote ? 3 : 2;
		if (!order.remote)
			order.remote = order.port;
		snprintf(order.text, sizeof(order.text), "load %d", order.port);
	} else if (!strcmp(words[0], "migrate")) {
		order.kind = MIGRATE;
	} else if (strcmp(words[0], "quit")) {
		refuse(words[0], "no order: load PORT, migrate and quit are");
		return 0;
	}
	if (count == MAX_ORDERS) {
		refuse(order.text, "%d orders are to be carried out before",
		       MAX_ORDERS);
		return 0;
	}
	orders[count++] = order;
	return used;
}

bool give_orders(char **words, int number)
{
	while (number > 0) {
		int used = give_order(words, number);

		if (!used)
			return false;
		words += used;
		number -= used;
	}
	return true;
}

static void give_line(char *line)
{
	char *words[2 * MAX_ORDERS], *rest;
	int number = 0;

	for (char *word = strtok_r(line, " \t\r", &rest); word;
	     word = strtok_r(NULL, " \t\r", &rest)) {
		if (number == 2 * MAX_ORDERS) {
			refuse(words[0], "the line is too long");
			return;
		}
		words[number++] = word;
	}
	give_orders(words, number);
}

int orders_fd(void)
{
	if (is_input_over)
		return -1;
	/* The terminal of a job in the background is somebody else's. */
	if (isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) != getpgrp())
		return -1;
	return STDIN_FILENO;
}

void read_orders(void)
{
	static char text[256];
	static size_t length;
	ssize_t got = read(STDIN_FILENO, text + length,
			   sizeof(text) - 1 - length);
	char *line = text, *end;

	if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EIO))
		return;
	is_input_over = got <= 0;
	if (is_input_over && length)
		text[length++] = '\n';
	length += is_input_over ? 0 : got;
	text[length] = 0;
	for (; (end = memchr(line, '\n', text + length - line)); line = end + 1) {
		*end = 0;
		give_line(line);
	}
	length -= line - text;
	memmove(text, line, length);
	if (length == sizeof(text) - 1) {
		refuse("input", "the line is too long");
		length = 0;
	}
}

__attribute__((format(printf, 2, 3))) static bool
wait_or_refuse(const char *order, const char *format, ...)
{
	char reason[128];
	va_list args;

	if (now_us() < until)
		return false;
	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	return refuse(order, "%s", reason);
}

static bool is_same(const struct sib_cm_path *a, const struct sib_cm_path *b)
{
	return a->local_lid == b->local_lid && a->remote_lid == b->remote_lid;
}

/* Like what follows, returns whether the order is over. */
static bool do_load(struct side *side, const struct order *order)
{
	struct sib_cm_attr_id attr = { .id = side->id };
	struct sib_cm_path path;
	int error;

	if (is_sent)
		return !side->is_offering &&
		       (side->loads != before ||
			refuse(order->text, "the peer does not take the path"));
	if (!side->is_active)
		return refuse(order->text,
			      "only the side that has connected offers paths");
	survey(side);
	if (order->port > side->ours.count)
		return refuse(order->text, "the device has ports 1 to %d",
			      side->ours.count);
	if (order->remote > side->theirs.count)
		return refuse(order->text, "the peer has ports 1 to %d",
			      side->theirs.count);
	path = path_by(side, order->port, order->remote);
	cm(side, SIB_CM_IOC_ATTR_ID, &attr, "no attributes");
	if (is_same(&path, &attr.primary))
		return refuse(order->text, "that is the path in use");
	if (side->is_offering)
		return wait_or_refuse(order->text, "an offer is under way");
	if (attr.has_alternate && is_same(&path, &attr.alternate))
		return true;
	if (attr.has_alternate)
		return refuse(order->text,
			      "there is an alternate path: migrate first");
	if (!is_port_active(side, order->port))
		return refuse(order->text, "the port is not active");
	before = side->loads;
	error = offer(side, &path);
	is_sent = !error;
	if (error == EAGAIN)
		return wait_or_refuse(order->text,
				      "the peer is not heard on the path in use");
	return error && refuse(order->text, "%s", strerror(error));
}

static bool do_migrate(struct side *side, const struct order *order)
{
	struct ibv_qp_attr attr = { .path_mig_state = IBV_MIG_MIGRATED };
	bool is_to_come = side->is_active && !side->is_manual;
	int error;

	if (is_sent)
		return side->migrations != before ||
		       wait_or_refuse(order->text, "no word of it has come");
	switch (mig_state(side)) {
	case IBV_MIG_MIGRATED:
		return is_to_come ?
			       wait_or_refuse(order->text,
					      "there is no alternate path") :
			       refuse(order->text,
				      side->is_active ?
					      "there is no alternate path: load one first" :
					      "there is no alternate path");
	case IBV_MIG_REARM:
		return wait_or_refuse(order->text,
				      "the peer is not ready for the alternate path");
	case IBV_MIG_ARMED:
		break;
	}
	before = side->migrations;
	error = ibv_modify_qp(side->qp, &attr, IBV_QP_PATH_MIG_STATE);
	is_sent = !error;
	return error && refuse(order->text, "%s", strerror(error));
}

static bool do_order(struct side *side, const struct order *order)
{
	switch (order->kind) {
	case LOAD:
		return do_load(side, order);
	case MIGRATE:
		return do_migrate(side, order);
	case QUIT:
		break;
	}
	interrupted = 1;
	return true;
}

bool carry_out(struct side *side)
{
	while (count && !interrupted &&
	       (side->is_connected || orders[0].kind == QUIT)) {
		if (!until)
			until = now_us() + PATIENCE_US;
		if (!do_order(side, &orders[0]))
			break;
		memmove(orders, orders + 1, --count * sizeof(orders[0]));
		until = 0;
		is_sent = false;
	}
	return count && side->is_connected;
}

bool end_orders(void)
{
	for (int i = 0; i < count; i++)
		refuse(orders[i].text, "the connection has ended before");
	count = 0;
	return !is_refused;
}
