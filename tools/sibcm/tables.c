// SPDX-License-Identifier: GPL-2.0
/* What the module shows of devices and connections. */

#include "sibcm.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>

static const char HCAS[] = "/sys/kernel/debug/sib_cm/hcas";
static const char TABLE[] = "/sys/kernel/debug/sib_cm/connections";

/* The name of the device with this GUID. */
static const char *name_of(struct ibv_device **list, uint64_t guid)
{
	for (int i = 0; list && list[i]; i++)
		if (be64toh(ibv_get_device_guid(list[i])) == guid)
			return ibv_get_device_name(list[i]);
	return "?";
}

/* A line of HCAS begins with a GUID, of TABLE with a communication ID. */
void show(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	FILE *hcas = fopen(HCAS, "r"), *table = fopen(TABLE, "r");
	char line[256];

	if (!hcas || !table)
		die("%s: %m", hcas ? TABLE : HCAS);
	while (fgets(line, sizeof(line), hcas)) {
		uint64_t guid = strtoull(line, NULL, 16);

		printf("%s %s", name_of(list, guid), line);
	}
	while (fgets(line, sizeof(line), table))
		fputs(line, stdout);
	fclose(hcas);
	fclose(table);
	ibv_free_device_list(list);
}
