// SPDX-License-Identifier: GPL-2.0

#include <linux/compiler.h>
#include <linux/kmod.h>
#include <linux/module.h>

#include "module.h"

/* Whether it is neither being loaded nor being removed. */
bool sib_helper_module_is_loaded(const struct module *module)
{
	return READ_ONCE(module->state) == MODULE_STATE_LIVE;
}

int sib_helper_request_module(const char *name)
{
	return request_module("%s", name);
}
