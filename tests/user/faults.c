// SPDX-License-Identifier: GPL-2.0

#include "faults.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void faults_order(const struct device *device, const char *rule)
{
	ssize_t length = strlen(rule);
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/sys/kernel/debug/sib/%s/%u/faults",
		 device->name, device->port);
	fd = open(path, O_WRONLY);
	check(fd >= 0, "%s: %m", path);
	check(write(fd, rule, length) == length, "%s: %s: %m", path, rule);
	close(fd);
}
