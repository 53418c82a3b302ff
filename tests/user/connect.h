/* SPDX-License-Identifier: GPL-2.0 */
/* The parts of the program `connect`. */
#ifndef TESTS_CONNECT_H
#define TESTS_CONNECT_H

#include "side.h"

#define SERVICE 0x02ff000000001234ull

extern struct side active, passive;

/* A request for the service, by the first ports, with a text. */
struct sib_cm_send_req request(uint32_t id, const char *text);

/* Each with one thing wrong; and anything. */
void test_arguments(uint32_t listener);
void test_untold(void);
void test_noise(uint32_t listener);

#endif
