// SPDX-License-Identifier: GPL-2.0

#include <linux/moduleparam.h>

#include "param.h"

/* Module parameters of a kind that the macro `module!` does not know: lists of words. */

#define SIB_MAX_PEERS 64

static char *sib_peers[SIB_MAX_PEERS];
static unsigned int sib_peer_count;
module_param_array_named(peers, sib_peers, charp, &sib_peer_count, 0444);
MODULE_PARM_DESC(peers,
		 "Cables to plug, each NETDEV/ADDRESS or NETDEV/ADDRESS:PORT, an IPv6 address in brackets before a PORT");

/* The word at that place of the list; NULL behind its end. The list does not change. */
const char *sib_helper_peer(unsigned int index)
{
	return index < sib_peer_count ? sib_peers[index] : NULL;
}
