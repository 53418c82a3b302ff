// SPDX-License-Identifier: GPL-2.0
/*
 * Steps of the administrator: HCAs that are made and removed, cables, ports that are
 * moved, and the files of debugfs.
 */

#include "sweep.h"
#include "nldev.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An HCA that comes and goes, on a network device that nobody else has; the test's
 * script makes it, and mounts both file systems. */
#define DEVICE "sib8"
#define NETDEV "sibnet8"
#define CONFIG "/sys/kernel/config/sib"
#define CABLE CONFIG "/sweep"
#define DEBUG "/sys/kernel/debug/sib"
/* Of a port that has traffic: it strikes nothing. */
#define RULE "drop in probability=0% seed=7"

/* To make an HCA takes 7000 allocations, and seconds. */
#define LINK_SPARSE 100

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), error;

	if (fd < 0)
		return errno;
	error = write(fd, text, strlen(text)) < 0 ? errno : 0;
	close(fd);
	return error;
}

static int get(const char *path)
{
	/* A captured packet is read as a whole. */
	static char text[65536];
	int fd = open(path, O_RDONLY | O_CLOEXEC), error;

	if (fd < 0)
		return errno;
	error = read(fd, text, sizeof(text)) < 0 ? errno : 0;
	close(fd);
	return error;
}

static void must_put(const char *path, const char *text)
{
	int error = put(path, text);

	check(!error, "'%s' to %s: %s", text, path, strerror(error));
}

/* HCAs. */

static int add_link(void)
{
	int error = nldev_new_link(DEVICE, "sib", NETDEV);

	check(!error || nldev_index(DEVICE) < 0, "%s is there in spite of '%s'",
	      DEVICE, strerror(error));
	return error;
}

static void have_link(void)
{
	int error = add_link();

	check(!error, "new link: %s", strerror(error));
}

static int delete_link(void)
{
	return nldev_delete_link(nldev_index(DEVICE));
}

static void undo_link(void)
{
	int error = delete_link();

	check(!error, "delete link: %s", strerror(error));
}

static int index_to_delete;

static void have_link_to_delete(void)
{
	have_link();
	index_to_delete = nldev_index(DEVICE);
}

static int delete_known_link(void)
{
	return nldev_delete_link(index_to_delete);
}

static void none_is_left(void)
{
	check(nldev_index(DEVICE) < 0, "%s is still there", DEVICE);
}

/* Cables. */

static int make_cable(void)
{
	return mkdir(CABLE, 0755) ? errno : 0;
}

static void have_cable(void)
{
	check(!make_cable(), "mkdir: %m");
}

static int remove_cable(void)
{
	return rmdir(CABLE) ? errno : 0;
}

static void undo_cable(void)
{
	check(!remove_cable(), "rmdir: %m");
}

static int name_netdev(void)
{
	return put(CABLE "/netdev", NETDEV);
}

static int name_remote(void)
{
	return put(CABLE "/remote", "192.0.2.1");
}

static int name_port(void)
{
	return put(CABLE "/port", DEVICE "/2");
}

static int give_key(void)
{
	return put(CABLE "/key", "a secret");
}

static int show_remote(void)
{
	return get(CABLE "/remote");
}

static int plug(void)
{
	return put(CABLE "/enable", "1");
}

static int unplug(void)
{
	return put(CABLE "/enable", "0");
}

static void have_complete_cable(void)
{
	have_cable();
	must_put(CABLE "/netdev", NETDEV);
	must_put(CABLE "/remote", "192.0.2.1");
}

static void have_plugged_cable(void)
{
	have_complete_cable();
	must_put(CABLE "/enable", "1");
}

/* The port is on the switch of the neighbours' network device at first. */
static void have_rail(void)
{
	have_link();
	have_cable();
	must_put(CABLE "/netdev", "sibnet0");
	must_put(CABLE "/port", DEVICE "/2");
}

static void have_moved_port(void)
{
	have_rail();
	must_put(CABLE "/enable", "1");
}

static void undo_rail(void)
{
	undo_cable();
	undo_link();
}

/* Files of debugfs. */

static int add_rule(void)
{
	return put(DEBUG "/sib0/1/faults", RULE);
}

static int clear_rules(void)
{
	return put(DEBUG "/sib0/1/faults", "clear");
}

static void undo_rule(void)
{
	must_put(DEBUG "/sib0/1/faults", "clear");
}

static void have_rule(void)
{
	must_put(DEBUG "/sib0/1/faults", RULE);
}

static int show_rules(void)
{
	return get(DEBUG "/sib0/1/faults");
}

static int start_capture(void)
{
	return put(DEBUG "/sib0/1/capture", "on");
}

static void undo_capture(void)
{
	must_put(DEBUG "/sib0/1/capture", "off");
}

static void have_capture(void)
{
	must_put(DEBUG "/sib0/1/capture", "on");
}

static int show_packets(void)
{
	return get(DEBUG "/sib0/1/packets");
}

static const struct step links[] = {
	{ "link add", NULL, add_link, undo_link, { ENOBUFS } },
};

static const struct step steps[] = {
	{ "link del", have_link_to_delete, delete_known_link, none_is_left, { ENOBUFS } },
	{ "mkdir of a cable", NULL, make_cable, undo_cable, { 0 } },
	{ "rmdir of a cable", have_cable, remove_cable, NULL, { 0 } },
	{ "netdev of a cable", have_cable, name_netdev, undo_cable, { 0 } },
	{ "remote of a cable", have_cable, name_remote, undo_cable, { 0 } },
	{ "port of a cable", have_cable, name_port, undo_cable, { 0 } },
	{ "key of a cable", have_cable, give_key, undo_cable, { 0 } },
	{ "question for the remote", have_complete_cable, show_remote, undo_cable, { 0 } },
	{ "a cable is plugged in", have_complete_cable, plug, undo_cable, { 0 } },
	{ "a cable is pulled out", have_plugged_cable, unplug, undo_cable, { 0 } },
	{ "rmdir of a plugged cable", have_plugged_cable, remove_cable, NULL, { 0 } },
	{ "a port is moved", have_rail, plug, undo_rail, { 0 } },
	{ "a port is moved back", have_moved_port, unplug, undo_rail, { 0 } },
	{ "rule of a port", NULL, add_rule, undo_rule, { 0 } },
	{ "no rules of a port", have_rule, clear_rules, NULL, { 0 } },
	{ "question for the rules", have_rule, show_rules, undo_rule, { 0 } },
	{ "capture", NULL, start_capture, undo_capture, { 0 } },
	{ "captured packets", have_capture, show_packets, undo_capture, { 0 } },
};

void sweep_admin(uint32_t stride, struct rng *rng)
{
	sweep(links, ARRAY_SIZE(links), stride * LINK_SPARSE, rng);
	sweep(steps, ARRAY_SIZE(steps), stride, rng);
}
