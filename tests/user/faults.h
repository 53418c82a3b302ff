/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What ports do to packets, by the fault injector. Wants debugfs.
 */
#ifndef TESTS_FAULTS_H
#define TESTS_FAULTS_H

#include "common.h"

/* Gives the port of a device one more rule, or has it "clear" them. */
void faults_order(const struct device *device, const char *rule);
/*
 * The number behind `what`, as "seen" or "held", in the first line of the port's file that
 * begins with `line`: a rule, or "#", what is said of the port.
 */
unsigned long faults_count(const struct device *device, const char *line,
			   const char *what);

#endif
