/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the rdma tool asks of ib_core, asked by the calling thread itself.
 */
#ifndef TESTS_NLDEV_H
#define TESTS_NLDEV_H

#include <stdint.h>

/* The kinds of objects that ib_core counts. */
#define NLDEV_KINDS 16

/* How many objects of each kind there are on a device, in ib_core's order. */
struct nldev_counts {
	int kinds;
	char names[NLDEV_KINDS][16];
	uint64_t counts[NLDEV_KINDS];
};

/* Opens the socket that all calls use. */
void nldev_open(void);

/* The index of a device by its name, or -1. */
int nldev_index(const char *name);
struct nldev_counts nldev_count(int index);

/* Makes a device of this type on a network device, and removes one: 0 or an errno. */
int nldev_new_link(const char *name, const char *type, const char *netdev);
int nldev_delete_link(int index);

#endif
