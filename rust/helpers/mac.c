// SPDX-License-Identifier: GPL-2.0

#include <crypto/sha2.h>
#include <crypto/utils.h>
#include <linux/build_bug.h>
#include <linux/string.h>

#include "mac.h"

#if !IS_REACHABLE(CONFIG_CRYPTO_LIB_SHA256)
#error "The kernel has no HMAC-SHA256 in lib/crypto: set CONFIG_CRYPTO_LIB_SHA256"
#endif

static_assert(SIB_MAC_LEN == SHA256_DIGEST_SIZE);
static_assert(sizeof(struct sib_mac_key) == sizeof(struct hmac_sha256_key));
static_assert(__alignof__(struct sib_mac_key) >=
	      __alignof__(struct hmac_sha256_key));

void sib_helper_mac_prepare(struct sib_mac_key *key, const u8 *raw, size_t len)
{
	hmac_sha256_preparekey((struct hmac_sha256_key *)key, raw, len);
}

/* Stores SIB_MAC_LEN bytes at tag. */
void sib_helper_mac_tag(const struct sib_mac_key *key, const u8 *data,
			size_t len, u8 *tag)
{
	hmac_sha256((const struct hmac_sha256_key *)key, data, len, tag);
}

/* Takes as long whatever differs. */
bool sib_helper_same_bytes(const void *a, const void *b, size_t len)
{
	return !crypto_memneq(a, b, len);
}

void sib_helper_wipe(void *bytes, size_t len)
{
	memzero_explicit(bytes, len);
}
