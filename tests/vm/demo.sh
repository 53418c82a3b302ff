#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
#
# The demonstration of `make run`: two HCAs on one dummy network device, a stock
# OpenSM, and unmodified programs between them.

. "$(dirname "$0")/lib.sh"

step "Two HCAs, and OpenSM to configure their fabric"
fabric_up

step "The devices"
run ibv_devinfo
for device in sib0 sib1; do
	info=$(ibv_devinfo -d $device)
	grep -q 'link_layer:.*InfiniBand' <<<"$info" || fail "$device: not an InfiniBand port"
	grep -q 'PORT_ACTIVE' <<<"$info" || fail "$device: no active port"
	! grep -Eq 'port_lid:[[:space:]]*0$' <<<"$info" || fail "$device: a port without a LID"
done

step "The fabric, as infiniband-diags see it"
run iblinkinfo

step "Ping-pongs"
for kind in rc uc ud srq; do
	pair sib0 sib1 ibv_${kind}_pingpong
done

step "All of it works"
