// SPDX-License-Identifier: GPL-2.0
/*
 * Steps of the connection manager: each ioctl of /dev/sib_cm, at connections of queue
 * pairs that there are not and at questions for one, by a process at both ends; and what
 * debugfs tells of them. Datagrams that get no memory are sent again.
 */

#include "sweep.h"
#include "side.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define SERVICE 0x02ff00000000f400ull
#define DATAGRAMS 0x02ff00000000f401ull
#define OTHER 0x02ff00000000f402ull
#define QPNS 0x420000
/* 67 ms, 1.07 s. */
#define HASTY 14
#define RESPONSE 18
#define RETRIES 15
#define CONSUMER_DEFINED 28
#define DEBUG "/sys/kernel/debug/sib_cm/"

static struct side near, far;
static struct sib_cm_send_req request;
static uint32_t generation;
static int opened;

/* Files. */

static int open_file(void)
{
	opened = open("/dev/sib_cm", O_RDWR | O_CLOEXEC);
	return opened < 0 ? errno : 0;
}

static void close_file(void)
{
	close(opened);
}

/* Identifiers. */

static int create_id(void)
{
	struct sib_cm_create_id create = { .guid = near.guid };
	int error = command(&near, SIB_CM_IOC_CREATE_ID, &create);

	near.id = create.id;
	return error;
}

static void have_id(void)
{
	near.id = new_id(&near, 0);
}

static void undo_id(void)
{
	destroy(&near, near.id);
}

static int destroy_id(void)
{
	struct sib_cm_destroy_id it = { .id = near.id };

	return command(&near, SIB_CM_IOC_DESTROY_ID, &it);
}

static int ask_attributes(void)
{
	struct sib_cm_attr_id attr = { .id = near.id };

	return command(&near, SIB_CM_IOC_ATTR_ID, &attr);
}

static int listen_for(enum sib_cm_kind kind)
{
	struct sib_cm_listen it = { .service_id = OTHER,
				    .id = near.id,
				    .kind = kind };

	return command(&near, SIB_CM_IOC_LISTEN, &it);
}

static int listen_for_connections(void)
{
	return listen_for(SIB_CM_CONNECTIONS);
}

static int listen_for_datagrams(void)
{
	return listen_for(SIB_CM_DATAGRAMS);
}

/* Connections, which go as far as a step needs them. */

static void have_request(void)
{
	request = bare_request(&near, &far, SERVICE, 1);
	near.id = request.id;
}

static int send_req(void)
{
	return command(&near, SIB_CM_IOC_SEND_REQ, &request);
}

static void undo_both(void)
{
	destroy(&near, near.id);
	destroy(&far, far.id);
}

static void undo_asked(void)
{
	far.id = expect_told(&far, SIB_CM_REQ_RECEIVED).id;
	undo_both();
}

static void have_asked(void)
{
	ask_bare(&near, &far, SERVICE, 1);
}

/* None that has had a connection lately. */
static uint32_t some_qpn(void)
{
	static uint16_t last;

	return QPNS | ++last;
}

static int send_rep(void)
{
	struct sib_cm_send_rep rep = { .id = far.id, .qpn = some_qpn() };

	return command(&far, SIB_CM_IOC_SEND_REP, &rep);
}

static int send_rej(void)
{
	struct sib_cm_send_rej rej = { .id = far.id,
				       .reason = CONSUMER_DEFINED };

	return command(&far, SIB_CM_IOC_SEND_REJ, &rej);
}

static int send_mra(void)
{
	struct sib_cm_send_mra mra = { .id = far.id,
				       .service_timeout = RESPONSE };

	return command(&far, SIB_CM_IOC_SEND_MRA, &mra);
}

/* What has been told stays until it has been read. */
static void have_event(void)
{
	have_request();
	check(!send_req(), "SEND_REQ: %m");
	check(has_event(&far, DUE_MS), "no event");
}

static int get_event(void)
{
	struct sib_cm_event event;
	int error = command(&far, SIB_CM_IOC_GET_EVENT, &event);

	if (!error) {
		check(event.type == SIB_CM_REQ_RECEIVED, "event %u",
		      event.type);
		far.id = event.id;
	}
	return error;
}

static void have_replied(void)
{
	have_asked();
	check(!send_rep(), "SEND_REP: %m");
	expect_told(&near, SIB_CM_REP_RECEIVED);
}

static int send_rtu(void)
{
	struct sib_cm_send rtu = { .id = near.id };

	return command(&near, SIB_CM_IOC_SEND_RTU, &rtu);
}

static int init_attributes(enum ibv_qp_state state)
{
	struct sib_cm_init_qp_attr it = { .id = near.id,
					  .attr.qp_state = state };

	return command(&near, SIB_CM_IOC_INIT_QP_ATTR, &it);
}

static int attributes_of_init(void)
{
	return init_attributes(IBV_QPS_INIT);
}

static int attributes_of_rtr(void)
{
	return init_attributes(IBV_QPS_RTR);
}

static int attributes_of_rts(void)
{
	return init_attributes(IBV_QPS_RTS);
}

static int notify(void)
{
	struct sib_cm_notify it = { .id = far.id, .fact = SIB_CM_COMM_EST };

	return command(&far, SIB_CM_IOC_NOTIFY, &it);
}

static void have_established(void)
{
	have_asked();
	accept_bare(&near, &far);
}

static int send_lap(void)
{
	struct sib_cm_send_lap lap = { .id = near.id,
				       .response_timeout = RESPONSE,
				       .retries = RETRIES,
				       .path = path_between(&near, &far, 2) };

	return command(&near, SIB_CM_IOC_SEND_LAP, &lap);
}

static void undo_offered(void)
{
	expect_told(&far, SIB_CM_LAP_RECEIVED);
	undo_both();
}

static void have_offered(void)
{
	have_established();
	check(!send_lap(), "SEND_LAP: %m");
	generation = expect_told(&far, SIB_CM_LAP_RECEIVED).generation;
}

static int send_apr(void)
{
	struct sib_cm_send_apr apr = { .id = far.id, .generation = generation };

	return command(&far, SIB_CM_IOC_SEND_APR, &apr);
}

static void undo_answered(void)
{
	expect_told(&near, SIB_CM_APR_RECEIVED);
	undo_both();
}

static int send_dreq(void)
{
	struct sib_cm_send dreq = { .id = near.id };

	return command(&near, SIB_CM_IOC_SEND_DREQ, &dreq);
}

static void undo_parting(void)
{
	expect_told(&far, SIB_CM_DREQ_RECEIVED);
	undo_both();
}

static void have_parting(void)
{
	have_established();
	check(!send_dreq(), "SEND_DREQ: %m");
	expect_told(&far, SIB_CM_DREQ_RECEIVED);
}

static int send_drep(void)
{
	struct sib_cm_send drep = { .id = far.id };

	return command(&far, SIB_CM_IOC_SEND_DREP, &drep);
}

/* If the DREP was lost, the next DREQ is for nobody, and ib_cm answers it. */
static void undo_parted(void)
{
	destroy(&far, far.id);
	expect_told(&near, SIB_CM_DREP_RECEIVED);
	destroy(&near, near.id);
}

static void undo_far(void)
{
	destroy(&far, far.id);
}

/* Questions for a queue pair. */

static int send_sidr_req(void)
{
	struct sib_cm_send_sidr_req req = {
		.service_id = DATAGRAMS,
		.id = near.id,
		.pkey = 0xffff,
		.response_timeout = HASTY,
		.retries = RETRIES,
		.path = path_between(&near, &far, 1),
	};

	return command(&near, SIB_CM_IOC_SEND_SIDR_REQ, &req);
}

static void undo_question(void)
{
	far.id = expect_told(&far, SIB_CM_SIDR_REQ_RECEIVED).id;
	undo_both();
}

static void have_question(void)
{
	have_id();
	check(!send_sidr_req(), "SEND_SIDR_REQ: %m");
	far.id = expect_told(&far, SIB_CM_SIDR_REQ_RECEIVED).id;
}

static int send_sidr_rep(void)
{
	struct sib_cm_send_sidr_rep rep = { .id = far.id, .qpn = some_qpn() };

	return command(&far, SIB_CM_IOC_SEND_SIDR_REP, &rep);
}

static void undo_told(void)
{
	expect_told(&near, SIB_CM_SIDR_REP_RECEIVED);
	undo_both();
}

/* Files of debugfs. */

static int get(const char *path)
{
	char text[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC), error;

	if (fd < 0)
		return errno;
	error = read(fd, text, sizeof(text)) < 0 ? errno : 0;
	close(fd);
	return error;
}

static int show_connections(void)
{
	return get(DEBUG "connections");
}

static int show_questions(void)
{
	return get(DEBUG "questions");
}

static const struct step steps[] = {
	{ "open of sib_cm", NULL, open_file, close_file, { 0 } },
	{ "CREATE_ID", NULL, create_id, undo_id, { 0 } },
	{ "DESTROY_ID", have_id, destroy_id, NULL, { 0 } },
	{ "ATTR_ID", have_established, ask_attributes, undo_both, { 0 } },
	{ "LISTEN for connections", have_id, listen_for_connections, undo_id, { 0 } },
	{ "LISTEN for datagrams", have_id, listen_for_datagrams, undo_id, { 0 } },
	{ "SEND_REQ", have_request, send_req, undo_asked, { 0 } },
	{ "GET_EVENT", have_event, get_event, undo_both, { 0 } },
	{ "SEND_MRA", have_asked, send_mra, undo_both, { 0 } },
	{ "SEND_REJ", have_asked, send_rej, undo_both, { 0 } },
	{ "SEND_REP", have_asked, send_rep, undo_both, { 0 } },
	{ "INIT_QP_ATTR to INIT", have_replied, attributes_of_init, undo_both, { 0 } },
	{ "INIT_QP_ATTR to RTR", have_replied, attributes_of_rtr, undo_both, { 0 } },
	{ "INIT_QP_ATTR to RTS", have_replied, attributes_of_rts, undo_both, { 0 } },
	{ "NOTIFY", have_replied, notify, undo_both, { 0 } },
	{ "SEND_RTU", have_replied, send_rtu, undo_both, { 0 } },
	{ "SEND_LAP", have_established, send_lap, undo_offered, { 0 } },
	{ "SEND_APR", have_offered, send_apr, undo_answered, { 0 } },
	{ "SEND_DREQ", have_established, send_dreq, undo_parting, { 0 } },
	{ "SEND_DREP", have_parting, send_drep, undo_parted, { 0 } },
	{ "DESTROY_ID of a connection", have_established, destroy_id, undo_far, { 0 } },
	{ "SEND_SIDR_REQ", have_id, send_sidr_req, undo_question, { 0 } },
	{ "SEND_SIDR_REP", have_question, send_sidr_rep, undo_told, { 0 } },
	{ "question for the connections", have_established, show_connections, undo_both, { 0 } },
	{ "question for the questions", have_question, show_questions, undo_both, { 0 } },
};

void sweep_cm(uint32_t stride, struct rng *rng)
{
	uint32_t listener, server;

	side_open(&near, devices[0].name);
	side_open(&far, devices[1].name);
	listener = listen_on(&far, SERVICE, SIB_CM_CONNECTIONS, 0);
	server = listen_on(&far, DATAGRAMS, SIB_CM_DATAGRAMS, 0);
	sweep(steps, ARRAY_SIZE(steps), stride, rng);
	destroy(&far, listener);
	destroy(&far, server);
	side_close(&near);
	side_close(&far);
}
