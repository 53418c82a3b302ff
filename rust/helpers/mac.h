/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SIB_HELPERS_MAC_H
#define SIB_HELPERS_MAC_H

#include <linux/types.h>

#define SIB_MAC_LEN 32

/* An HMAC key, as lib/crypto prepares it. */
struct sib_mac_key {
	u8 state[64] __aligned(8);
};

void sib_helper_mac_prepare(struct sib_mac_key *key, const u8 *raw, size_t len);
void sib_helper_mac_tag(const struct sib_mac_key *key, const u8 *data,
			size_t len, u8 *tag);
bool sib_helper_same_bytes(const void *a, const void *b, size_t len);
void sib_helper_wipe(void *bytes, size_t len);

#endif
