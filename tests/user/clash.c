// SPDX-License-Identifier: GPL-2.0
/*
 * A connection by /dev/sib_cm, a step at a time, so that others can happen in between:
 *
 *     clash DEVICE DEVICE
 *
 * reads what to do, a word on each line, and says "done" after each: "ask" for a connection,
 * "accept" it, "load" an alternate path, "part" in the end.
 */

#include "side.h"

#include <stdio.h>
#include <string.h>

#define SERVICE 0x02ff00000000c1a5ull
#define LOADED 0
/* 1.07 s. */
#define RESPONSE 18
#define RETRIES 7

static struct side active, passive;

static void load(void)
{
	struct sib_cm_send_lap lap = {
		.id = active.id,
		.response_timeout = RESPONSE,
		.retries = RETRIES,
		.path = path_between(&active, &passive, 2),
	};
	struct sib_cm_send_apr apr = { .id = passive.id, .status = LOADED };
	struct sib_cm_event event;

	order(&active, SIB_CM_IOC_SEND_LAP, &lap);
	event = expect_told(&passive, SIB_CM_LAP_RECEIVED);
	apr.generation = event.generation;
	order(&passive, SIB_CM_IOC_SEND_APR, &apr);
	event = expect_told(&active, SIB_CM_APR_RECEIVED);
	check(event.status == LOADED, "status %u of the APR", event.status);
}

int main(int argc, char **argv)
{
	char word[16];

	check(argc == 3, "usage: clash DEVICE DEVICE");
	side_open(&active, argv[1]);
	side_open(&passive, argv[2]);
	uint32_t listener = listen_on(&passive, SERVICE, SIB_CM_CONNECTIONS, 0);

	while (scanf("%15s", word) == 1) {
		if (!strcmp(word, "ask"))
			ask_bare(&active, &passive, SERVICE, 1);
		else if (!strcmp(word, "accept"))
			accept_bare(&active, &passive);
		else if (!strcmp(word, "load"))
			load();
		else if (!strcmp(word, "part"))
			part_bare(&active, &passive);
		else
			fail("what is '%s'?", word);
		puts("done");
		fflush(stdout);
	}
	destroy(&passive, listener);
	side_close(&active);
	side_close(&passive);
	return 0;
}
