// SPDX-License-Identifier: GPL-2.0
/*
 * A client of ib_core that sets Q_KeyViolations of a port back to 0, for which programs
 * have no verb.
 *
 * Loading it does so at port 1 of device `b`, which must have counted something, and leaves `a` alone:
 *
 *     insmod qkeyreset.ko a=sib0 b=sib1
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "between.h"

#define PORT 1

static int violations(struct ib_device *device, u32 *count)
{
	struct ib_port_attr attr;

	try(ib_query_port(device, PORT, &attr));
	*count = attr.qkey_viol_cntr;
	return 0;
}

static int run(void)
{
	struct ib_device *left_alone = devices[0], *counted = devices[1];
	struct ib_port_modify change = {};
	u32 before, after, others, others_after;

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

static int __init qkeyreset_init(void)
{
	return between_devices(run, NULL);
}
module_init(qkeyreset_init);

MODULE_DESCRIPTION("Test of the order to set Q_KeyViolations back to 0");
MODULE_LICENSE("GPL");
