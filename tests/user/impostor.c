// SPDX-License-Identifier: GPL-2.0
/*
 * Connects by rdma_cm, and says that a queue pair of somebody else is its own: nobody
 * checks that, since a program may make its queue pair without rdma_cm.
 *
 *     impostor listen|call ADDRESS QPN
 *
 * Says "established" when it is, and stays until it is killed.
 */

#include "common.h"

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TCP_PORT 7481
#define RESOLVE_MS 20000

static struct rdma_event_channel *channel;

/* The next event, which must be this one; the identifier that it is about. */
static struct rdma_cm_id *expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	check(!rdma_get_cm_event(channel, &event), "event: %m");
	check(event->event == type, "event '%s', status %d",
	      rdma_event_str(event->event), event->status);
	id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(TCP_PORT) };
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	bool calls = argc == 4 && !strcmp(argv[1], "call");
	struct rdma_cm_id *id;

	check((calls || (argc == 4 && !strcmp(argv[1], "listen"))) &&
		      inet_pton(AF_INET, argv[2], &address.sin_addr) == 1,
	      "usage: impostor listen|call ADDRESS QPN");
	param.qp_num = strtoul(argv[3], NULL, 0);
	channel = rdma_create_event_channel();
	check(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP),
	      "no identifier: %m");
	if (calls) {
		check(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&address,
					 RESOLVE_MS),
		      "resolve_addr: %m");
		expect(RDMA_CM_EVENT_ADDR_RESOLVED);
		check(!rdma_resolve_route(id, RESOLVE_MS), "resolve_route: %m");
		expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
		check(!rdma_connect(id, &param), "connect: %m");
		expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
		check(!rdma_establish(id), "establish: %m");
	} else {
		check(!rdma_bind_addr(id, (struct sockaddr *)&address), "bind: %m");
		check(!rdma_listen(id, 1), "listen: %m");
		id = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
		check(!rdma_accept(id, &param), "accept: %m");
		expect(RDMA_CM_EVENT_ESTABLISHED);
	}
	printf("established\n");
	fflush(stdout);
	pause();
	return 0;
}
