/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SIB_HELPERS_MODULE_H
#define SIB_HELPERS_MODULE_H

#include <linux/module.h>

/* module.c */
bool sib_helper_module_is_loaded(const struct module *module);
int sib_helper_request_module(const char *name);

#endif
