#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600 -- handoff
# vm-long: --kernel stock --timeout 600 -- udp
# vm-long: --kernel stock --timeout 600 -- handoff module
# vm-long: --kernel stock --timeout 900 -- handoff module flood
#
# Connections by IP addresses and by GIDs: the programs of librdmacm, rsockets under
# programs that know nothing of them, perftest, all unmodified; with `flood`, beside
# sib_cm and a flood of LAPs.
#
#     rdmacm.sh [handoff|udp [opensm|module [flood]]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"
. "$(dirname "$0")/cmprograms.sh"

# Connections by GID know no namespaces: the server is on this host, with the other HCA.
by_gid() {
	on_far() {
		"$@"
	}
	cm_programs_by_gid
	on_far() {
		far "$@"
	}
}

subnet_manager "${2:-opensm}"
datapath "${1:-handoff}"
ip_fabric
addresses
run modprobe rdma_ucm
pings $FAR 56 1
pings $FAR6 56 1
[ "${3:-}" != flood ] || {
	run modprobe sib_cm
	flood_up
}

cm_programs
by_gid

[ "${3:-}" != flood ] || {
	flood_down
	run rmmod sib_cm
}
no_objects
ip_down
