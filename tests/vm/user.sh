# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What scripts share that run the programs of tests/user, or choose a data path.
# Sourced after lib.sh.

USER_PROGRAMS=/src/build/user

# user PROGRAM [ARG]...: runs a program of tests/user.
user() {
	local program=$USER_PROGRAMS/$1
	shift
	[ -x "$program" ] || fail "no $program: make it with tools/root-exec make -C /src/tests/user"
	"$program" "$@"
}

# inserted NAME [PARAMETER]...: loads a module of tests/kernel.
inserted() {
	local flavour=stock module
	[[ $(uname -r) != *-sib-debug* ]] || flavour=debug
	module=/src/build/$flavour-clients/$1.ko
	[ -e "$module" ] || fail "no $module: make it with tests/kernel/build $flavour"
	insmod "$module" "${@:2}"
}

# client_loaded NAME [PARAMETER]...: loads a client of ib_core, whose test runs meanwhile,
# and shows what it says.
client_loaded() {
	inserted "$1" a=sib0 b=sib1 "${@:2}" || {
		dmesg | grep "$1:"
		fail "the client has found a fault"
	}
	dmesg | grep "$1:"
}

# client NAME [PARAMETER]...: does the same, and unloads it.
client() {
	client_loaded "$@"
	run rmmod "$1"
}

# datapath handoff|udp: how packets of fabrics made from now on travel.
datapath() {
	case $1 in
	handoff) run modprobe sib force_udp=0 ;;
	udp) run modprobe sib force_udp=1 ;;
	*) fail "a data path is handoff or udp, not '$1'" ;;
	esac
}

# no_objects: waits until no program has a queue pair, CQ, MR or PD left.
no_objects() {
	within 20 user_objects_gone || {
		rdma resource show
		rdma resource show qp
		fail "objects of programs that have ended are still there"
	}
}

# What has no name in brackets is not the kernel's. A program that has ended has neither a name nor a process ID.
user_objects_gone() {
	local kind objects
	for kind in qp cq mr pd srq; do
		objects=$(rdma resource show "$kind") || return 1
		! grep -v ' comm \[' <<<"$objects" | grep -q . || return 1
	done
}

# nothing_left: no consumer of sib_cm has a connection any more, or asks.
nothing_left() {
	[ -z "$(cat /sys/kernel/debug/sib_cm/{connections,questions})" ]
}

# endless listen|call SOCKET DEVICE: starts one side of traffic without an end, as
# process ENDLESS.
endless() {
	"$USER_PROGRAMS/endless" "$@" &
	ENDLESS=$!
}

# load DEVICE DEVICE: a reliable connection between two HCAs, of which every byte is
# checked, as process LOAD. It ends by itself only if something is wrong, or if nothing
# comes through for eight seconds.
load() {
	LOADED=$2
	"$USER_PROGRAMS/data" -a "$1" -b "$2" -t rc -N 1 -n 100000000 -s "$RANDOM" -T 18 >/tmp/load 2>&1 &
	LOAD=$!
	load_goes_on "at first"
}

load_sent() {
	cat "/sys/class/infiniband/$LOADED/ports/1/counters/port_xmit_packets"
}

load_has_sent() {
	[ "$(load_sent)" -gt "$1" ]
}

# load_goes_on WHEN: a thousand more packets come through, and nothing was wrong.
load_goes_on() {
	local began=${EPOCHREALTIME/[.,]/}
	within 120 load_has_sent $(($(load_sent) + 1000)) || fail "nothing moves $1"
	kill -0 $LOAD 2>/dev/null || fail "the connection is lost $1: $(cat /tmp/load)"
	printf 'a thousand packets %s: %d ms\n' "$1" $(((${EPOCHREALTIME/[.,]/} - began) / 1000))
}

# load_ends: it goes on until now.
load_ends() {
	kill $LOAD || fail "the connection is lost: $(cat /tmp/load)"
	wait $LOAD 2>/dev/null
}

TRACE=/sys/kernel/tracing

# tracing_up: tracepoints can be read, and there is room for many.
tracing_up() {
	mount -t tracefs tracefs $TRACE 2>/dev/null
	echo 4096 >$TRACE/buffer_size_kb
}

# transmitted OPCODE COMMAND [ARG]...: counts the requests of COMMAND, which runs on the first
# processor, by the processor that transmits them: BY_POSTER and BY_OTHER.
transmitted() {
	local opcode=$1
	shift
	echo >$TRACE/trace
	echo 1 >$TRACE/events/sib/sib_transmit/enable
	pair sib1 sib0 taskset -c 0 "$@"
	echo 0 >$TRACE/events/sib/sib_transmit/enable
	read -r BY_POSTER BY_OTHER < <(awk -v opcode="opcode=$opcode" '
		index($0, opcode) { if (index($0, "[000]")) first++; else second++ }
		END { print first + 0, second + 0 }' $TRACE/trace)
	printf 'requests sent where they are posted: %d, on the other processor: %d\n' "$BY_POSTER" "$BY_OTHER"
	[ $((BY_POSTER + BY_OTHER)) -ge 500 ] || fail "there were more"
}
