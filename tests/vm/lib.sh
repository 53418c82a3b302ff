# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What tests in guests have in common. Sourced by the scripts beside it, inside
# the guest:
#
#     . "$(dirname "$0")/lib.sh"

set -u

# OpenSM manages the subnet, and cables are plugged by order, unless a test wants more
# of the module. A parameter can be given once, so not to modprobe as well.
echo 'options sib sm=0 beacons=0' >/etc/modprobe.d/sib.conf

# managed_by_module: has the module manage the subnet.
managed_by_module() {
	echo 'options sib beacons=0' >/etc/modprobe.d/sib.conf
}

# as_it_comes: has the module do by itself what it can.
as_it_comes() {
	rm -f /etc/modprobe.d/sib.conf
}

# step TEXT...: says what comes next.
step() {
	printf '== %s\n' "$*"
}

# fail TEXT...: ends the test.
fail() {
	printf 'FAILED: %s\n' "$*" >&2
	exit 1
}

# run COMMAND...: shows a command, runs it, and ends the test if it fails.
run() {
	printf '$ %s\n' "$*"
	"$@" || fail "status $? of: $*"
}

# within SECONDS COMMAND...: repeats COMMAND quietly until it succeeds.
within() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

# barrier NAME: waits for the other hosts.
barrier() {
	vm-barrier "$1" || fail "not all hosts have come to $1"
}

# underlay NAME [MTU]: a dummy network device to put HCAs on.
underlay() {
	ip link show "$1" >/dev/null 2>&1 || run ip link add "$1" type dummy
	run ip link set "$1" mtu "${2:-9000}" up
}

# hca_up NAME NETDEV: creates an HCA.
hca_up() {
	run rdma link add "$1" type sib netdev "$2"
	[ -d "/sys/class/infiniband/$1" ] || fail "no device $1 after rdma link add"
}

# breaks: how often a cable of this host has gone down.
breaks() {
	dmesg | grep -c 'sib: .* the cable of .* is down'
}

# complaints: how many lines of the log say why something was not taken in configfs.
complaints() {
	dmesg | grep -c "configfs: "
}

# lid DEVICE [PORT]: the LID of a port.
lid() {
	printf '%d\n' "$(cat "/sys/class/infiniband/$1/ports/${2:-1}/lid")"
}

# gid DEVICE [PORT]: its first GID.
gid() {
	cat "/sys/class/infiniband/$1/ports/${2:-1}/gids/0"
}

# uverbs HCA: the device file of its verbs.
uverbs() {
	local dir
	for dir in /sys/class/infiniband_verbs/uverbs*; do
		if [ "$(cat "$dir/ibdev")" = "$1" ]; then
			echo "/dev/infiniband/${dir##*/}"
			return
		fi
	done
	fail "$1 has no device file"
}

# port_guid DEVICE [PORT]: the port's GUID as opensm -g wants it.
port_guid() {
	echo "0x$(gid "$@" | cut -d : -f 5- | tr -d :)"
}

OPENSM_LOG=/tmp/opensm.log

# opensm_up DEVICE [PORT [OPTION...]]: starts OpenSM on a port.
opensm_up() {
	local device=$1 port=${2:-1}
	shift $(($# < 2 ? $# : 2))
	printf '$ opensm on %s %s\n' "$device" "$*"
	opensm -g "$(port_guid "$device" "$port")" -f "$OPENSM_LOG" -t 400 "$@" >/tmp/opensm.out 2>&1 &
	OPENSM_PID=$!
}

# ended PID: whether a child has ended, be it unreaped.
ended() {
	! grep -q '^State:[[:space:]]*[^Z]' "/proc/$1/status"
}

# opensm_down: stops it, and ends the test with what its threads wait for if it
# does not stop, or with what it has said if it had ended before or does not end well.
opensm_down() {
	[ -z "${OPENSM_PID:-}" ] || {
		kill "$OPENSM_PID" || fail "OpenSM has ended by itself: $(tail -n 30 /tmp/opensm.out)"
		within 60 ended "$OPENSM_PID" || {
			head -v /proc/"$OPENSM_PID"/task/*/{wchan,syscall,stack}
			fail "OpenSM does not end"
		}
		wait "$OPENSM_PID" || fail "status $? of OpenSM: $(tail -n 30 /tmp/opensm.out)"
	}
	OPENSM_PID=
}

# opensm_clean [PATTERN]: ends the test if OpenSM's log holds an error or a warning. Traps
# are logged as errors, and so is what comes in while OpenSM leaves; PATTERN is what else is right.
opensm_clean() {
	[ -s "$OPENSM_LOG" ] || fail "OpenSM has no log"
	! grep -E 'WARN|ERR [0-9A-F]{4}|0x01 ->' "$OPENSM_LOG" |
		grep -Ev "since we are exiting|log_trap_info${1:+|$1}" ||
		fail "OpenSM has found fault with the fabric"
}

# opensm_clean_since BREAKS [PATTERN]: as opensm_clean, if no cable of this host has gone down since there were so many
# breaks. OpenSM is right to complain of one that has.
opensm_clean_since() {
	if [ "$(breaks)" = "$1" ]; then
		opensm_clean "${@:2}"
	else
		printf 'a cable was down: what OpenSM says is not looked at\n'
	fi
}

port_active() {
	local file state
	for file in /sys/class/infiniband/"$1"/ports/*/state; do
		read -r state <"$file" && [[ $state == *ACTIVE ]] || return 1
	done
}

# wait_active SECONDS DEVICE...: waits until all ports are ACTIVE.
wait_active() {
	local seconds=$1 device
	shift
	for device; do
		within "$seconds" port_active "$device" || {
			head -v -n 1 /sys/class/infiniband/*/ports/*/state
			[ ! -e "$OPENSM_LOG" ] || tail -n 30 "$OPENSM_LOG"
			fail "$device is not ACTIVE after $seconds s"
		}
	done
}

# managed_by LID: all ports know the subnet manager at LID.
managed_by() {
	local port
	for port in /sys/class/infiniband/*/ports/*; do
		[ "$(($(cat "$port/sm_lid")))" = "$1" ] || return 1
	done
}

# managed_from DEVICE: all ports know the one at the first port of DEVICE.
managed_from() {
	managed_by "$(lid "$1")"
}

# switches DEVICE COUNT: so many switches are in its subnet.
switches() {
	[ "$(timeout 60 ibswitches -C "$1" | grep -c '^Switch')" = "$2" ]
}

# hcas DEVICE COUNT: so many HCAs are.
hcas() {
	[ "$(timeout 60 ibhosts -C "$1" | grep -c '^Ca')" = "$2" ]
}

# links DEVICE COUNT [PORT]: so many links are active in the subnet, seen from that port.
links() {
	[ "$(timeout 60 iblinkinfo -C "$1" ${3:+-P "$3"} -l | grep -c 'Active/  LinkUp')" = $((2 * $2)) ]
}

# hcas_up [NAME...]: HCAs (sib0 and sib1) on one dummy device.
hcas_up() {
	local name
	[ $# -gt 0 ] || set -- sib0 sib1
	run modprobe sib
	underlay sibnet0
	for name; do
		hca_up "$name" sibnet0
	done
}

# fabric_up [NAME...]: the same, OpenSM on the first one, all ports ACTIVE.
fabric_up() {
	[ $# -gt 0 ] || set -- sib0 sib1
	hcas_up "$@"
	opensm_up "$1"
	wait_active 60 "$@"
}

# fabric_down [NAME...]: undoes fabric_up.
fabric_down() {
	local name
	[ $# -gt 0 ] || set -- sib0 sib1
	opensm_down
	for name; do
		run rdma link del "$name"
	done
	run modprobe -r sib
}

PORT=18515

# paired SERVER CLIENT COMMAND [ARG]...: as pair; if it fails, WRONG says why.
paired() {
	local server=$1 client=$2 pid status=0
	shift 2
	PORT=$((PORT + 1))
	printf '$ %s -d %s &  %s -d %s\n' "$*" "$server" "$*" "$client"
	timeout -k 5 "${PAIR_SECONDS:-120}" "$@" -d "$server" -i 1 -p $PORT >"/tmp/server.$PORT" 2>&1 &
	pid=$!
	if ! within 20 listening $PORT; then
		WRONG="the server of $1 does not listen"
	elif timeout -k 5 "${PAIR_SECONDS:-120}" "$@" -d "$client" -i 1 -p $PORT 127.0.0.1 || {
		status=$?
		false
	}; then
		wait $pid && return
		WRONG="status $? of the server of: $*"
	else
		WRONG="status $status of the client of: $*"
	fi
	kill $pid 2>/dev/null
	wait $pid
	cat "/tmp/server.$PORT"
	return 1
}

# pair SERVER CLIENT COMMAND [ARG]...: runs COMMAND as the server on one device
# and as the client on another; both must succeed. Options are as libibverbs'
# examples and perftest have them.
pair() {
	paired "$@" || fail "$WRONG"
}

# lossy_pair SERVER CLIENT COMMAND [ARG]...: as pair, for a program that waits for ever for a
# datagram that has been lost, over a network that may lose one. One of three runs succeeds.
lossy_pair() {
	local run
	for run in 1 2 3; do
		! PAIR_SECONDS=30 paired "$@" || return 0
		printf 'run %d: %s\n' $run "$WRONG"
	done
	fail "three times: $WRONG"
}

listening() {
	[ -n "$(ss -Htln "sport = :$1")" ]
}
