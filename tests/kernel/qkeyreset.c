// SPDX-License-Identifier: GPL-2.0
/*
 * A client of ib_core that sets Q_KeyViolations of a port back to 0, for which programs
 * have no verb.
 *
 * Loading it does so at port 1 of a device, which must have counted something:
 *
 *     insmod qkeyreset.ko b=sib1
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "client.h"

#define PORT 1

static char *a = "sib0";
static char *b = "sib1";
module_param(a, charp, 0400);
MODULE_PARM_DESC(a, "a device that is left alone");
module_param(b, charp, 0400);
MODULE_PARM_DESC(b, "the device whose port has counted");

static struct ib_device *left_alone, *counted;

static int violations(struct ib_device *device, u32 *count)
{
	struct ib_port_attr attr;

	try(ib_query_port(device, PORT, &attr));
	*count = attr.qkey_viol_cntr;
	return 0;
}

static int run(void)
{
	struct ib_port_modify change = {};
	u32 before, after, others, others_after;

	check(left_alone && counted, "no %s or no %s", a, b);
	try(violations(counted, &before));
	try(violations(left_alone, &others));
	check(before, "nothing was counted");
	try(ib_modify_port(counted, PORT, 0, &change));
	try(violations(counted, &after));
	check(after == before, "%u instead of %u without an order", after,
	      before);
	try(ib_modify_port(counted, PORT, IB_PORT_RESET_QKEY_CNTR, &change));
	try(violations(counted, &after));
	try(violations(left_alone, &others_after));
	check(!after, "%u after the order", after);
	check(others_after == others, "another port has %u instead of %u",
	      others_after, others);
	pr_info("from %u to 0\n", before);
	return 0;
}

static int add_device(struct ib_device *device)
{
	if (!strcmp(dev_name(&device->dev), a))
		left_alone = device;
	if (!strcmp(dev_name(&device->dev), b))
		counted = device;
	return 0;
}

static struct ib_client client = { .name = "qkeyreset", .add = add_device };

static int __init qkeyreset_init(void)
{
	int error = ib_register_client(&client);

	if (error)
		return error;
	error = run();
	ib_unregister_client(&client);
	return error;
}

static void __exit qkeyreset_exit(void)
{
}

module_init(qkeyreset_init);
module_exit(qkeyreset_exit);

MODULE_DESCRIPTION("Test of the order to set Q_KeyViolations back to 0");
MODULE_LICENSE("GPL");
