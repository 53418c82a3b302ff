/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Allocations of the kernel that fail on request. See "fault-injection" in the
 * kernel's documentation; the kernel needs FAILSLAB and FAIL_PAGE_ALLOC.
 */
#ifndef TESTS_INJECT_H
#define TESTS_INJECT_H

#include <stdbool.h>

/* Keeps all memory of this program in place, so that no page fault needs any, and
 * has every kind of allocation fail when it is told to. */
void inject_prepare(void);
/* From now on only those fail that have code of a module among their callers: the kernel itself
 * warns when it is short of memory for a module that it loads. */
void inject_below_modules(void);

/* From now on the `nth` allocation on behalf of this thread fails, from 1 on. */
void inject_arm(int nth);
/* No more; whether one has failed. */
bool inject_disarm(void);

#endif
