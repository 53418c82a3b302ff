// SPDX-License-Identifier: GPL-2.0
/*
 * Has /dev/sib_cm not be made, which is the last that sib_cm does when it is loaded, and
 * counts the work queues that modprobe makes and destroys meanwhile.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/string.h>

static atomic_t made, destroyed;

/* Called in the place of misc_register(). */
static noinline int refuse(struct miscdevice *misc)
{
	return -EBUSY;
}

static int on_register(struct kprobe *probe, struct pt_regs *regs)
{
	const struct miscdevice *misc =
		(void *)regs_get_kernel_argument(regs, 0);

	if (strcmp(misc->name, "sib_cm"))
		return 0;
	instruction_pointer_set(regs, (unsigned long)refuse);
	return 1;
}

static void count(atomic_t *queues)
{
	if (!strcmp(current->comm, "modprobe"))
		atomic_inc(queues);
}

static int on_alloc(struct kprobe *probe, struct pt_regs *regs)
{
	count(&made);
	return 0;
}

static int on_destroy(struct kprobe *probe, struct pt_regs *regs)
{
	count(&destroyed);
	return 0;
}

static struct kprobe probes[] = {
	{ .symbol_name = "misc_register", .pre_handler = on_register },
	{ .symbol_name = "alloc_workqueue_noprof", .pre_handler = on_alloc },
	{ .symbol_name = "destroy_workqueue", .pre_handler = on_destroy },
};

static int __init refuser_init(void)
{
	int error = 0;

	for (int i = 0; i < ARRAY_SIZE(probes); i++) {
		error = register_kprobe(&probes[i]);
		if (error) {
			while (i--)
				unregister_kprobe(&probes[i]);
			break;
		}
	}
	return error;
}

static void __exit refuser_exit(void)
{
	for (int i = 0; i < ARRAY_SIZE(probes); i++)
		unregister_kprobe(&probes[i]);
	pr_info("%d work queues made, %d destroyed\n", atomic_read(&made),
		atomic_read(&destroyed));
}

module_init(refuser_init);
module_exit(refuser_exit);
MODULE_DESCRIPTION("Has sib_cm not be loaded");
MODULE_LICENSE("GPL");
