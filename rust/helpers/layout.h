/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SIB_HELPERS_LAYOUT_H
#define SIB_HELPERS_LAYOUT_H

#include <linux/types.h>

const size_t *sib_helper_layout(size_t *count);

#endif
