// SPDX-License-Identifier: GPL-2.0

#include "inject.h"
#include "common.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HEAP (32u << 20)

/* Where modules are on x86-64, unless the kernel has been moved. */
#define MODULES_START "0xffffffffa0000000"
#define MODULES_END "0xffffffffff000000"

static int fail_nth = -1;

static void set(const char *knob, const char *value)
{
	char path[100];
	int fd;

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s", knob);
	fd = open(path, O_WRONLY);
	check(fd >= 0, "%s: %m", path);
	check(write(fd, value, strlen(value)) == (ssize_t)strlen(value),
	      "%s to %s: %m", knob, value);
	close(fd);
}

static void set_callers(const char *start, const char *end)
{
	set("failslab/require-start", start);
	set("failslab/require-end", end);
	set("fail_page_alloc/require-start", start);
	set("fail_page_alloc/require-end", end);
}

void inject_prepare(void)
{
	void *heap;

	mallopt(M_MMAP_THRESHOLD, HEAP);
	mallopt(M_TRIM_THRESHOLD, 2 * HEAP);
	mallopt(M_TOP_PAD, HEAP);
	heap = malloc(HEAP / 2);
	check(heap && !mlockall(MCL_CURRENT | MCL_FUTURE), "mlockall: %m");
	memset(heap, 1, HEAP / 2);
	free(heap);
	fail_nth = open("/proc/thread-self/fail-nth", O_RDWR);
	check(fail_nth >= 0, "fail-nth: %m");
	set("failslab/verbose", "0");
	set("failslab/times", "-1");
	set("failslab/task-filter", "N");
	set("failslab/ignore-gfp-wait", "N");
	set("fail_page_alloc/verbose", "0");
	set("fail_page_alloc/times", "-1");
	set("fail_page_alloc/task-filter", "N");
	set("fail_page_alloc/min-order", "0");
	set("fail_page_alloc/ignore-gfp-wait", "N");
	set("fail_page_alloc/ignore-gfp-highmem", "N");
	set_callers("0", "0xffffffffffffffff");
}

void inject_below_modules(void)
{
	set_callers(MODULES_START, MODULES_END);
}

void inject_arm(int nth)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%d", nth);

	check(pwrite(fail_nth, text, length, 0) == length, "fail-nth: %m");
}

bool inject_disarm(void)
{
	char text[16] = "";

	check(pread(fail_nth, text, sizeof(text) - 1, 0) > 0, "fail-nth: %m");
	inject_arm(0);
	return atoi(text) == 0;
}
