// SPDX-License-Identifier: GPL-2.0

#include <linux/debugfs.h>

#include "debugfs.h"

struct dentry *sib_helper_debugfs_dir(const char *name, struct dentry *parent)
{
	return debugfs_create_dir(name, parent);
}

/* For root alone. The calls have an owner, which stays while a file is open. */
struct dentry *sib_helper_debugfs_file(const char *name, struct dentry *parent,
				       void *data,
				       const struct file_operations *calls)
{
	return debugfs_create_file(name, 0600, parent, data, calls);
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
