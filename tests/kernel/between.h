/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A client of ib_core between two devices, which its parameters `a` and `b` name. Loading it runs
 * its test, and fails if the test does.
 */
#ifndef TESTS_BETWEEN_H
#define TESTS_BETWEEN_H

#include <linux/module.h>
#include <rdma/ib_verbs.h>

#include "client.h"

static char *a = "sib0";
static char *b = "sib1";
module_param(a, charp, 0400);
MODULE_PARM_DESC(a, "a device");
module_param(b, charp, 0400);
MODULE_PARM_DESC(b, "its peer");

/* `a` and `b`. */
static struct ib_device *devices[2];

/* Keeps an object that was made, or tells why it was not. */
static inline int take(void *object, void *slot)
{
	if (IS_ERR(object))
		return PTR_ERR(object);
	*(void **)slot = object;
	return 0;
}

/* ib_core names its devices to its clients. */
static int add_device(struct ib_device *device)
{
	if (!strcmp(dev_name(&device->dev), a))
		devices[0] = device;
	if (!strcmp(dev_name(&device->dev), b))
		devices[1] = device;
	return 0;
}

static struct ib_client client = { .name = KBUILD_MODNAME, .add = add_device };

static int with_devices(int (*run)(void))
{
	check(devices[0] && devices[1], "no %s or no %s", a, b);
	return run();
}

/* Runs the test, and clears away what it has left. */
static int between_devices(int (*run)(void), void (*teardown)(void))
{
	int error = ib_register_client(&client);

	if (error)
		return error;
	error = with_devices(run);
	if (teardown)
		teardown();
	ib_unregister_client(&client);
	return error;
}

static void __exit leave(void)
{
}
module_exit(leave);

#endif
