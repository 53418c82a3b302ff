/* SPDX-License-Identifier: GPL-2.0 */
/*
 * C shims for inlines and macros that bindgen cannot bind. They hold no logic of the driver.
 *
 * Each header is read by bindgen and by the file that defines the functions, so that a signature cannot
 * differ between the two.
 */
#ifndef SIB_HELPERS_H
#define SIB_HELPERS_H

#include "cm.h"
#include "debugfs.h"
#include "ib.h"
#include "layout.h"
#include "lock.h"
#include "mac.h"
#include "manager.h"
#include "mem.h"
#include "module.h"
#include "net.h"
#include "odp.h"
#include "param.h"
#include "trace.h"
#include "work.h"

#endif
