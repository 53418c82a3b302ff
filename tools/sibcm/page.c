// SPDX-License-Identifier: GPL-2.0
/* What processes tell each other of their connections: a file of each in a folder of its own. */

#include "sibcm.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "/run/sibcm"

static char ours[sizeof(FOLDER) + 16];

static void remove_page(void)
{
	unlink(ours);
}

void open_page(struct side *side)
{
	struct sib_cm_attr_id attr = { .id = side->id };
	struct page *page;
	int fd;

	snprintf(ours, sizeof(ours), FOLDER "/%d", (int)getpid());
	if ((mkdir(FOLDER, 0755) && errno != EEXIST) ||
	    (fd = open(ours, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) < 0)
		die(FOLDER ": %m");
	atexit(remove_page);
	page = ftruncate(fd, sizeof(*page)) ?
		       MAP_FAILED :
		       mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE,
			    MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		die("%s: %m", ours);
	close(fd);
	cm(side, SIB_CM_IOC_ATTR_ID, &attr, "no attributes");
	page->guid = be64toh(ibv_get_device_guid(side->context->device));
	page->service = side->service;
	page->comm_id = attr.local_comm_id;
	side->page = page;
}

void update_page(struct side *side)
{
	if (!side->page)
		return;
	side->page->messages = side->received;
	side->page->bytes = side->received * side->size;
}

bool find_page(uint64_t guid, uint32_t comm_id, struct page *page)
{
	DIR *folder = opendir(FOLDER);
	bool is_found = false;
	struct dirent *entry;

	while (folder && !is_found && (entry = readdir(folder))) {
		int pid = atoi(entry->d_name);
		int fd = pid ? openat(dirfd(folder), entry->d_name,
				      O_RDONLY | O_CLOEXEC) :
			       -1;

		if (fd < 0)
			continue;
		is_found = read(fd, page, sizeof(*page)) == sizeof(*page) &&
			   page->guid == guid && page->comm_id == comm_id;
		close(fd);
		/* One that was killed has left its page behind. */
		if (kill(pid, 0) && errno == ESRCH)
			unlinkat(dirfd(folder), entry->d_name, 0);
	}
	if (folder)
		closedir(folder);
	return is_found;
}
