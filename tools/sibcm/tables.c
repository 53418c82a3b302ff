// SPDX-License-Identifier: GPL-2.0
/* What the module shows of devices and connections, in debugfs. */

#include "sibcm.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "/sys/kernel/debug/sib_cm/"
#define GUID_DIGITS 16

/* A file of the module. */
static FILE *open_table(const char *path)
{
	FILE *file = fopen(path, "r");

	if (!file)
		die("%s: %m%s", path,
		    errno == ENOENT ? " (modprobe sib_cm)" : "");
	return file;
}

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
	FILE *file = open_table(path);
	char line[256], *end;

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
	if (list)
		ibv_free_device_list(list);
}

/* Adds the established connections of a file. */
static struct row *add_rows(struct row *rows, size_t *count, const char *path,
			    bool is_watched, struct ibv_device **list)
{
	FILE *file = open_table(path);
	char line[256], state[40];

	while (fgets(line, sizeof(line), file)) {
		struct row row = { .is_watched = is_watched };

		if (sscanf(line,
			   "%16" SCNx64 " %x %*x %*s %39s qp %x to %*x path %u to %u alternate %u to %u",
			   &row.guid, &row.comm_id, state, &row.qpn,
			   &row.path[0], &row.path[1], &row.alternate[0],
			   &row.alternate[1]) < 6 ||
		    strncmp(state, "Established", strlen("Established")))
			continue;
		snprintf(row.device, sizeof(row.device), "%s",
			 name_of(list, row.guid));
		rows = realloc(rows, (*count + 1) * sizeof(row));
		if (!rows)
			die("no memory for %zu connections", *count + 1);
		rows[(*count)++] = row;
	}
	fclose(file);
	return rows;
}

struct row *read_rows(size_t *count)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct row *rows;

	*count = 0;
	rows = add_rows(NULL, count, FOLDER "connections", false, list);
	rows = add_rows(rows, count, FOLDER "watched", true, list);
	if (list)
		ibv_free_device_list(list);
	return rows;
}
