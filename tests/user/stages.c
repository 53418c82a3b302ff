// SPDX-License-Identifier: GPL-2.0
/*
 * A connection by /dev/sib_cm that stays as far as it has come, while the HCAs of its ends
 * go, one after the other.
 *
 *     stages DEVICE DEVICE STAGE
 *
 * The first device asks for the connection, and the second one listens. The program says
 * "held" when the connection is there, ends when both devices have gone, and each
 * identifier has been told so once, and nothing else but what that cuts short.
 */

#include "side.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SERVICE 0x02ff00000000f300ull
/* 8.6 s, so that nothing is sent again meanwhile; 1.07 s, to be asked for patience after half of it. */
#define LONG 21
#define SHORT 18
#define RETRIES 15

static struct side active, passive;
static uint32_t listener;

/* Where a connection stays, in the order in which it gets there. */
static const char *const stages[] = {
	"asked", "put-off", "replied", "reply-put-off", "established",
	"offered", "offer-put-off", "parting", "waiting",
};
enum stage {
	ASKED,
	PUT_OFF,
	REPLIED,
	REPLY_PUT_OFF,
	ESTABLISHED,
	OFFERED,
	OFFER_PUT_OFF,
	PARTING,
	WAITING,
	STAGES,
};

static void is_in(struct side *side, enum sib_cm_state state)
{
	check(attributes(side).state == state, "%s: state %u, not %d",
	      side->device.name, attributes(side).state, state);
}

static void say(struct side *side, unsigned long number)
{
	struct sib_cm_send it = { .id = side->id };

	order(side, number, &it);
}

/* Asks for patience: the peer reads of it. */
static void put_off(struct side *side, struct side *peer)
{
	struct sib_cm_send_mra mra = { .id = side->id, .service_timeout = LONG };

	order(side, SIB_CM_IOC_SEND_MRA, &mra);
	expect_told(peer, SIB_CM_MRA_RECEIVED);
}

static void offer(uint8_t response)
{
	struct sib_cm_send_lap lap = { .id = active.id,
				       .response_timeout = response,
				       .retries = RETRIES,
				       .path = path_between(&active, &passive, 2) };

	order(&active, SIB_CM_IOC_SEND_LAP, &lap);
	expect_told(&passive, SIB_CM_LAP_RECEIVED);
}

static void reach(enum stage stage)
{
	struct sib_cm_send_req req = bare_request(&active, &passive, SERVICE, 1);
	struct sib_cm_send_rep rep = { .qpn = 0x410000 };

	req.remote_response_timeout = req.local_response_timeout = LONG;
	req.max_cm_retries = RETRIES;
	/* TIMEWAIT takes as long. */
	req.primary.ack_timeout = LONG;
	active.id = req.id;
	order(&active, SIB_CM_IOC_SEND_REQ, &req);
	rep.id = passive.id = expect_told(&passive, SIB_CM_REQ_RECEIVED).id;
	if (stage == PUT_OFF)
		put_off(&passive, &active);
	if (stage <= PUT_OFF) {
		is_in(&active, SIB_CM_CONNECTING);
		is_in(&passive, SIB_CM_CONNECTING);
		return;
	}
	order(&passive, SIB_CM_IOC_SEND_REP, &rep);
	expect_told(&active, SIB_CM_REP_RECEIVED);
	if (stage == REPLY_PUT_OFF)
		put_off(&active, &passive);
	if (stage <= REPLY_PUT_OFF) {
		is_in(&active, SIB_CM_CONNECTING);
		is_in(&passive, SIB_CM_CONNECTING);
		return;
	}
	say(&active, SIB_CM_IOC_SEND_RTU);
	expect_told(&passive, SIB_CM_RTU_RECEIVED);
	if (stage == OFFERED)
		offer(LONG);
	if (stage == OFFER_PUT_OFF) {
		offer(SHORT);
		expect_told(&active, SIB_CM_MRA_RECEIVED);
	}
	if (stage <= OFFER_PUT_OFF) {
		is_in(&active, SIB_CM_ESTABLISHED);
		is_in(&passive, SIB_CM_ESTABLISHED);
		return;
	}
	say(&active, SIB_CM_IOC_SEND_DREQ);
	expect_told(&passive, SIB_CM_DREQ_RECEIVED);
	if (stage == PARTING) {
		is_in(&active, SIB_CM_DISCONNECTING);
		is_in(&passive, SIB_CM_DISCONNECTING);
		return;
	}
	say(&passive, SIB_CM_IOC_SEND_DREP);
	expect_told(&active, SIB_CM_DREP_RECEIVED);
	is_in(&active, SIB_CM_TIMEWAIT);
}

/* The next event but those that time brings about. */
static struct sib_cm_event next(struct side *side)
{
	struct sib_cm_event event;

	do {
		check(has_event(side, DUE_MS), "%s: no event",
		      side->device.name);
		order(side, SIB_CM_IOC_GET_EVENT, &event);
	} while (event.type == SIB_CM_MRA_RECEIVED ||
		 event.type == SIB_CM_TIMEWAIT_EXIT);
	return event;
}

/* The connection's identifier is of no use any more, and can be destroyed. */
static void bury(struct side *side)
{
	struct sib_cm_send it = { .id = side->id };
	struct sib_cm_init_qp_attr attr = { .id = side->id,
					    .attr.qp_state = IBV_QPS_RTS };

	check(command(side, SIB_CM_IOC_SEND_DREQ, &it) == ENODEV &&
		      command(side, SIB_CM_IOC_INIT_QP_ATTR, &attr) == ENODEV,
	      "%s: an order for an HCA that is gone", side->device.name);
	nothing(side);
	destroy(side, side->id);
}

static void active_goes(enum stage stage)
{
	struct sib_cm_event event = next(&active);

	if (stage == OFFERED || stage == OFFER_PUT_OFF) {
		check(event.type == SIB_CM_LAP_ERROR && event.id == active.id,
		      "event %u of the LAP", event.type);
		event = next(&active);
	}
	check(event.type == SIB_CM_REMOVED && event.id == active.id,
	      "event %u of the requester", event.type);
	bury(&active);
}

static void passive_goes(void)
{
	struct sib_cm_listen again = { .service_id = SERVICE, .id = listener };
	bool has_gone = false, is_silent = false;

	while (!has_gone || !is_silent) {
		struct sib_cm_event event = next(&passive);
		bool *which = event.id == listener ? &is_silent : &has_gone;

		check(event.type == SIB_CM_REMOVED && !*which &&
			      (event.id == listener || event.id == passive.id),
		      "event %u of %u", event.type, event.id);
		*which = true;
	}
	bury(&passive);
	check(command(&passive, SIB_CM_IOC_LISTEN, &again) == ENODEV,
	      "%s: a listener on an HCA that is gone", passive.device.name);
	destroy(&passive, listener);
}

int main(int argc, char **argv)
{
	bool active_is_here = true, passive_is_here = true;
	enum stage stage = ASKED;

	check(argc == 4, "usage: stages DEVICE DEVICE STAGE");
	while (stage < STAGES && strcmp(argv[3], stages[stage]))
		stage++;
	check(stage < STAGES, "no stage %s", argv[3]);
	side_open(&active, argv[1]);
	side_open(&passive, argv[2]);
	listener = listen_on(&passive, SERVICE, SIB_CM_CONNECTIONS, 0);
	reach(stage);
	printf("held\n");
	fflush(stdout);
	while (active_is_here || passive_is_here) {
		if (active_is_here && has_event(&active, 10)) {
			active_goes(stage);
			active_is_here = false;
		}
		if (passive_is_here && has_event(&passive, 10)) {
			passive_goes();
			passive_is_here = false;
		}
	}
	printf("%s: each has been told\n", argv[3]);
	return 0;
}
