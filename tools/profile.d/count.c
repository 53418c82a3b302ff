// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin for QEMU's emulator: counts how often each block of the guest's code
 * runs between two marks that a program of the guest executes, and how often it was
 * reached by a jump that the emulator cannot chain to it, but has to look up: a
 * return or another indirect one, or one from another page. It leaves lines of the
 * form ADDRESS INSTRUCTIONS TIMES LOOKUPS in the file that out= names. What it takes
 * for a return is that of x86; elsewhere only jumps between pages count.
 *
 * The interface is that of qemu-plugin.h, which Debian does not package; what is
 * used of it is declared here.
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb,
						 size_t index);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *dest,
			     size_t len);
void qemu_plugin_register_vcpu_tb_trans_cb(
	qemu_plugin_id_t id,
	void (*cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_cb(
	struct qemu_plugin_tb *tb, void (*cb)(unsigned int cpu, void *data),
	enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(
	struct qemu_plugin_insn *insn, void (*cb)(unsigned int cpu, void *data),
	enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id,
				    void (*cb)(qemu_plugin_id_t id, void *data),
				    void *data);
int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc,
			char **argv);

int qemu_plugin_version = 4;

/* movl $MARK, %eax; as in tests/user/cost.c. */
static const uint8_t mark_begin[] = { 0xb8, 0xde, 0xc0, 0xb0, 0x51 };
static const uint8_t mark_end[] = { 0xb8, 0xdf, 0xc0, 0xb0, 0x51 };

struct block {
	struct block *next;
	uint64_t address;
	uint64_t insns;
	uint64_t times;
	uint64_t lookups;
	/* It ends with an indirect jump. */
	bool is_indirect;
};

#define PAGE_SHIFT 12

#define BUCKETS (1u << 16)

static struct block *buckets[BUCKETS];
/* The one that ran last. There is one processor. */
static struct block *last;
static bool counting;
static const char *out;

static void begin(unsigned int cpu, void *data)
{
	counting = true;
}

static void end(unsigned int cpu, void *data)
{
	counting = false;
}

static void executed(unsigned int cpu, void *data)
{
	struct block *block = data, *from = last;

	last = block;
	if (!counting)
		return;
	block->times++;
	if (from && (from->is_indirect ||
		     from->address >> PAGE_SHIFT != block->address >> PAGE_SHIFT))
		block->lookups++;
}

/* The same code may be translated many times. */
static struct block *block_of(uint64_t address, uint64_t insns)
{
	struct block **bucket = &buckets[(address ^ address >> 16) % BUCKETS];
	struct block *block;

	for (block = *bucket; block; block = block->next)
		if (block->address == address && block->insns == insns)
			return block;
	block = calloc(1, sizeof(*block));
	if (!block)
		abort();
	block->next = *bucket;
	block->address = address;
	block->insns = insns;
	*bucket = block;
	return block;
}

/* A return, or a call or jump to where a register or a word says, behind the prefixes
 * that compilers write. */
static bool is_indirect(const struct qemu_plugin_insn *insn)
{
#ifdef __x86_64__
	uint8_t code[16] = { 0 };
	size_t len = qemu_plugin_insn_data(insn, code, sizeof(code)), at = 0;

	while (at + 2 < len && (code[at] == 0x2e || code[at] == 0x3e ||
				code[at] == 0xf2 || code[at] == 0xf3 ||
				(code[at] & 0xf0) == 0x40))
		at++;
	if (code[at] == 0xff) {
		uint8_t operation = code[at + 1] >> 3 & 7;

		return operation == 2 || operation == 4;
	}
	return code[at] == 0xc3 || code[at] == 0xc2;
#else
	return false;
#endif
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t insns = qemu_plugin_tb_n_insns(tb);
	struct block *block = block_of(qemu_plugin_tb_vaddr(tb), insns);

	block->is_indirect =
		is_indirect(qemu_plugin_tb_get_insn(tb, insns - 1));
	for (size_t i = 0; i < insns; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t code[sizeof(mark_begin)];

		if (qemu_plugin_insn_data(insn, code, sizeof(code)) !=
		    sizeof(code))
			continue;
		if (!memcmp(code, mark_begin, sizeof(code)))
			qemu_plugin_register_vcpu_insn_exec_cb(
				insn, begin, QEMU_PLUGIN_CB_NO_REGS, NULL);
		if (!memcmp(code, mark_end, sizeof(code)))
			qemu_plugin_register_vcpu_insn_exec_cb(
				insn, end, QEMU_PLUGIN_CB_NO_REGS, NULL);
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, executed,
					     QEMU_PLUGIN_CB_NO_REGS, block);
}

static void finish(qemu_plugin_id_t id, void *data)
{
	FILE *file = fopen(out, "w");

	if (!file)
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct block *block = buckets[i]; block; block = block->next)
			if (block->times)
				fprintf(file,
					"%" PRIx64 " %" PRIu64 " %" PRIu64
					" %" PRIu64 "\n",
					block->address, block->insns,
					block->times, block->lookups);
	fclose(file);
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc,
			char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "out=", 4))
			out = strdup(argv[i] + 4);
	if (!out)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, finish, NULL);
	return 0;
}
