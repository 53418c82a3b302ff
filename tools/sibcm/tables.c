// SPDX-License-Identifier: GPL-2.0
/* What the module shows of devices and connections, in debugfs. */

#include "sibcm.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>

#define FOLDER "/sys/kernel/debug/sib_cm/"
#define GUID_DIGITS 16

/* The name of the device with this GUID. */
static const char *name_of(struct ibv_device **list, uint64_t guid)
{
	for (int i = 0; list && list[i]; i++)
		if (be64toh(ibv_get_device_guid(list[i])) == guid)
			return ibv_get_device_name(list[i]);
	return "?";
}

/*
 * Prints the lines of a file that begin with the GUID of a device, with its name. Others are
 * about none.
 */
static void show_file(struct ibv_device **list, const char *title,
		      const char *path, bool with_guid)
{
	FILE *file = fopen(path, "r");
	char line[256], *end;

	if (!file)
		die("%s: %m", path);
	printf("%s\n", title);
	while (fgets(line, sizeof(line), file)) {
		uint64_t guid = strtoull(line, &end, 16);

		if (end - line == GUID_DIGITS)
			printf("%s %s", name_of(list, guid),
			       with_guid ? line : end + 1);
	}
	fclose(file);
}

void show(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	show_file(list, "Devices:", FOLDER "hcas", true);
	show_file(list, "Connections:", FOLDER "connections", false);
	show_file(list, "Connections of ib_cm:", FOLDER "watched", false);
	ibv_free_device_list(list);
}
