#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --kernel stock --timeout 300
#
# A connection of rdma_cm has an alternate path that no program knows of, and a peer that
# seems to have gone elsewhere: a packet from before the path was loaded has been held, and
# the module takes it as the IBA has it (apm_pardon=0). The program, which might end the
# connection for such an event, is not told, unless somebody wants it to be; the connection
# goes on, and over.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"
. "$(dirname "$0")/cm.sh"
. "$(dirname "$0")/rails.sh"
. "$(dirname "$0")/watched.sh"

FAULTS=/sys/kernel/debug/sib/sib1/1/faults

refused_since() {
	[ "$(counted sib1 path_mig_err)" -gt "$1" ]
}

port_down() {
	! grep -q ACTIVE "/sys/class/infiniband/$1/ports/$2/state"
}

# meets_refusal watched|told: the listener is told of it, or not.
meets_refusal() {
	local before
	levels full
	# Without the second port there is no alternate path.
	run $HOOK pull 2 3
	within 60 port_down sib1 2 || fail "the port does not go down"
	echo "delay in opcode=0x04 count=1 time=100000000" >$FAULTS || fail "rule"
	far timeout -k 5 200 "$USER_PROGRAMS/managed" listen $FAR "$1" refused >/tmp/server 2>&1 &
	server=$!
	within 20 cm_listens 7480 || gives_up "the server does not listen"
	timeout -k 5 200 "$USER_PROGRAMS/managed" call $FAR "$1" >/tmp/client 2>&1 &
	client=$!
	within 60 grep -q 'held=1' $FAULTS || gives_up "no message is held: $(cat $FAULTS)"
	mend 2
	within 60 grep -q armed /tmp/client && within 60 grep -q armed /tmp/server || gives_up "not armed"
	before=$(counted sib1 path_mig_err)
	echo clear >$FAULTS
	within 60 refused_since "$before" || gives_up "the late message is taken"
	# No other path comes after this one.
	levels respond
	fails_over 1
	wait $client || gives_up "status $? of the client"
	wait $server || gives_up "status $? of the server"
	mend 1
}

subnet_manager module
run modprobe sib force_udp=0 apm_pardon=0
ip_fabric
addresses
run modprobe rdma_ucm
run modprobe ib_umad
run modprobe sib_cm watch=2
policies sib0 sib1
pings $FAR 56 1

step "Programs are told nothing of a migration that has failed"
meets_refusal watched
no_policies
run rmmod sib_cm

step "unless somebody wants them to be"
run modprobe sib_cm watch=2 watch_events=1
policies sib0 sib1
meets_refusal told
no_policies
run rmmod sib_cm
no_objects
ip_down
