// SPDX-License-Identifier: GPL-2.0

#include <linux/debugfs.h>

#include "debugfs.h"

struct dentry *sib_helper_debugfs_dir(const char *name, struct dentry *parent)
{
	return debugfs_create_dir(name, parent);
}

/*
 * For root alone. The calls have an owner, which stays while a file is open. A kernel that is locked down opens no file
 * that could be written, be it to read it.
 */
struct dentry *sib_helper_debugfs_file(const char *name, struct dentry *parent,
				       void *data,
				       const struct file_operations *calls)
{
	return debugfs_create_file(name, calls->write ? 0600 : 0400, parent,
				   data, calls);
}

/* Without effect if the name is taken. */
void sib_helper_debugfs_rename(struct dentry *entry, const char *name)
{
	debugfs_change_name(entry, "%s", name);
}

void sib_helper_debugfs_remove(struct dentry *entry)
{
	debugfs_remove(entry);
}
