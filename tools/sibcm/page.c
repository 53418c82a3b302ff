// SPDX-License-Identifier: GPL-2.0
/* What processes tell each other of their connections: a file of each in a folder of its own. */

#include "sibcm.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "/run/sibcm"

static char ours[sizeof(FOLDER) + 16];

static void remove_page(void)
{
	unlink(ours);
}

/* A page for this process in the folder, or NULL with errno set. */
static struct page *new_page(void)
{
	struct page *page = MAP_FAILED;
	int fd;

	snprintf(ours, sizeof(ours), FOLDER "/%d", (int)getpid());
	if (mkdir(FOLDER, 0755) && errno != EEXIST)
		return NULL;
	fd = open(ours, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return NULL;
	atexit(remove_page);
	/* The lock, which ends with the process, tells that there is one. */
	if (!flock(fd, LOCK_EX | LOCK_NB) && !ftruncate(fd, sizeof(*page)))
		page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE,
			    MAP_SHARED, fd, 0);
	return page == MAP_FAILED ? NULL : page;
}

void open_page(struct side *side)
{
	struct sib_cm_attr_id attr = { .id = side->id };
	struct page *page = new_page();

	/* The connection is no worse for it. */
	if (!page) {
		fprintf(stderr, "sibcm: " FOLDER ": %s: top will not know of this connection\n", strerror(errno));
		return;
	}
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
		/* One that was killed has left its page behind. */
		if (is_found && !flock(fd, LOCK_SH | LOCK_NB)) {
			unlinkat(dirfd(folder), entry->d_name, 0);
			is_found = false;
		}
		close(fd);
	}
	if (folder)
		closedir(folder);
	return is_found;
}
