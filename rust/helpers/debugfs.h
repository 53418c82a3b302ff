/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SIB_HELPERS_DEBUGFS_H
#define SIB_HELPERS_DEBUGFS_H

struct dentry;
struct file_operations;

/* debugfs.c */
struct dentry *sib_helper_debugfs_dir(const char *name, struct dentry *parent);
struct dentry *sib_helper_debugfs_file(const char *name, struct dentry *parent,
				       void *data,
				       const struct file_operations *calls);
void sib_helper_debugfs_rename(struct dentry *entry, const char *name);
void sib_helper_debugfs_remove(struct dentry *entry);

#endif
