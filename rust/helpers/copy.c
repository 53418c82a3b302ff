// SPDX-License-Identifier: GPL-2.0

#include <linux/instrumented.h>
#include <linux/string.h>
#include <linux/types.h>

#include "mem.h"

/*
 * The kernel's memcpy() and memset() move single bytes by a string instruction where the processor says that it is
 * good at that. An emulated processor says so too, and then takes eight times as long as for whole words, which
 * real ones move as fast.
 */
#ifdef CONFIG_X86_64

/* Bytes from which on a string instruction is worth its start. */
#define MANY 128

static __always_inline void copy_words(void *dst, const void *src, size_t len)
{
	if (len >= MANY) {
		size_t words = len / sizeof(u64);

		len %= sizeof(u64);
		asm volatile("rep movsq" : "+D"(dst), "+S"(src), "+c"(words) : : "memory");
	}
	while (len >= 4 * sizeof(u64)) {
		u64 a, b, c, d;

		asm volatile("movq (%4), %0\n\tmovq 8(%4), %1\n\tmovq 16(%4), %2\n\tmovq 24(%4), %3\n\t"
			     "movq %0, (%5)\n\tmovq %1, 8(%5)\n\tmovq %2, 16(%5)\n\tmovq %3, 24(%5)"
			     : "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d)
			     : "r"(src), "r"(dst)
			     : "memory");
		src += 4 * sizeof(u64);
		dst += 4 * sizeof(u64);
		len -= 4 * sizeof(u64);
	}
	while (len >= sizeof(u64)) {
		u64 a;

		asm volatile("movq (%1), %0\n\tmovq %0, (%2)" : "=&r"(a) : "r"(src), "r"(dst) : "memory");
		src += sizeof(u64);
		dst += sizeof(u64);
		len -= sizeof(u64);
	}
	/* Even to move nothing, a string instruction takes its time. */
	if (len)
		asm volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(len) : : "memory");
}

static __always_inline void set_words(void *dst, u64 word, size_t len)
{
	if (len >= MANY) {
		size_t words = len / sizeof(u64);

		len %= sizeof(u64);
		asm volatile("rep stosq" : "+D"(dst), "+c"(words) : "a"(word) : "memory");
	}
	while (len >= sizeof(u64)) {
		asm volatile("movq %0, (%1)" : : "r"(word), "r"(dst) : "memory");
		dst += sizeof(u64);
		len -= sizeof(u64);
	}
	if (len)
		asm volatile("rep stosb" : "+D"(dst), "+c"(len) : "a"(word) : "memory");
}

#ifndef CONFIG_KASAN
/*
 * The compilers call these to move and to fill structs, and within a module they take the module's own. KASAN has
 * some of its own instead.
 */
#undef memcpy
void *memcpy(void *dst, const void *src, size_t len)
{
	copy_words(dst, src, len);
	return dst;
}

#undef memset
void *memset(void *dst, int byte, size_t len)
{
	set_words(dst, (u8)byte * (~0ull / 0xff), len);
	return dst;
}
#endif

#else
#define copy_words(dst, src, len) memmove(dst, src, len)
#endif

/*
 * Copies memory that others may change meanwhile. As a call into C it is opaque to the Rust compiler, which
 * must not assume that such memory is stable. Where source and destination overlap, what is copied is up to
 * the processor.
 */
void sib_helper_copy(void *dst, const void *src, size_t len)
{
	instrument_memcpy_before(dst, src, len);
	copy_words(dst, src, len);
}
