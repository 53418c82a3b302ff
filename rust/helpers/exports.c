// SPDX-License-Identifier: GPL-2.0
/*
 * What sib.ko shares with sib_cm.ko. Kbuild lists the symbols; only their addresses count here.
 */

#include <linux/export.h>

#define SIB_EXPORT(symbol)                                                     \
	extern int symbol;                                                     \
	EXPORT_SYMBOL_GPL(symbol)

#include "exports_generated.h"
#include "build_generated.h"

/* What sib_cm.ko is linked to of the same build alone. */
int SIB_BUILD;
EXPORT_SYMBOL_GPL(SIB_BUILD);
