/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SIB_HELPERS_PARAM_H
#define SIB_HELPERS_PARAM_H

/* param.c */
const char *sib_helper_peer(unsigned int index);

#endif
