// SPDX-License-Identifier: GPL-2.0
/*
 * The inodes that stand for what endpoints map: each endpoint has one, so that
 * its mappings can be taken away without those of the others.
 */
#include <linux/fs.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>

#include "driver.h"

#define FS_MAGIC	0x756c6e63	/* "ulnc" */

static struct vfsmount *inodes;

static int init_fs(struct fs_context *context)
{
	return init_pseudo(context, FS_MAGIC) ? 0 : -ENOMEM;
}

/* No owner: it is mounted by the module itself, which would never unload. */
static struct file_system_type inode_type = {
	.name = ULNIC_NAME,
	.init_fs_context = init_fs,
	.kill_sb = kill_anon_super,
};

int ulnic_inodes_init(void)
{
	inodes = kern_mount(&inode_type);
	return PTR_ERR_OR_ZERO(inodes);
}

void ulnic_inodes_exit(void)
{
	kern_unmount(inodes);
}

struct inode *ulnic_new_inode(void)
{
	return alloc_anon_inode(inodes->mnt_sb);
}
