// SPDX-License-Identifier: GPL-2.0

#include "faults.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 128
/* Eight rules and a line. */
#define TEXT_BYTES 4096

static int open_faults(const struct device *device, int flags,
		       char path[PATH_BYTES])
{
	int fd;

	snprintf(path, PATH_BYTES, "/sys/kernel/debug/sib/%s/%u/faults",
		 device->name, device->port);
	fd = open(path, flags);
	check(fd >= 0, "%s: %m", path);
	return fd;
}

void faults_order(const struct device *device, const char *rule)
{
	ssize_t length = strlen(rule);
	char path[PATH_BYTES];
	int fd = open_faults(device, O_WRONLY, path);

	check(write(fd, rule, length) == length, "%s: %s: %m", path, rule);
	close(fd);
}

unsigned long faults_count(const struct device *device, const char *line,
			   const char *what)
{
	char path[PATH_BYTES], text[TEXT_BYTES], name[16];
	int fd = open_faults(device, O_RDONLY, path);
	ssize_t length = read(fd, text, sizeof(text) - 1);
	const char *at = text;

	check(length > 0, "%s: %m", path);
	close(fd);
	text[length] = '\0';
	while (strncmp(at, line, strlen(line))) {
		at = strchr(at, '\n');
		check(at, "%s: no line '%s'", path, line);
		at++;
	}
	snprintf(name, sizeof(name), " %s=", what);
	at = strstr(at, name);
	check(at, "%s: no '%s' behind '%s'", path, what, line);
	return strtoul(at + strlen(name), NULL, 10);
}
