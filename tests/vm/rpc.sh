#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300
#
# Datagrams as libraries for remote procedure calls use them: thousands of receives, few
# signaled sends, sends to nobody, SysV huge pages that go while receives are in them.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

# 32 MiB for each of two, in pages of 2 MiB.
HUGE_PAGES=34

have_huge_pages() {
	echo $HUGE_PAGES >/proc/sys/vm/nr_hugepages
	[ "$(cat /proc/sys/vm/nr_hugepages)" -ge $HUGE_PAGES ]
}

within 20 have_huge_pages || fail "no $HUGE_PAGES huge pages"
managed_by_module
run modprobe sib
underlay sibnet0
hca_up sib0 sibnet0
wait_active 60 sib0
run user rpcish sib0
no_objects
run rdma link delete sib0
run modprobe -r sib
