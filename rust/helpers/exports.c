// SPDX-License-Identifier: GPL-2.0
/*
 * What sib.ko shares with sib_cm.ko. Kbuild lists the symbols; only their addresses count here.
 */

#include <linux/export.h>

#define SIB_EXPORT(symbol)                                                     \
	extern int symbol;                                                     \
	EXPORT_SYMBOL_GPL(symbol)

#include "exports_generated.h"
