#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 400 --package podman --package crun -- shared
# vm: --kernel stock --timeout 400 --package podman --package crun -- exclusive
#
# Two containers of podman, each with an HCA and in a network namespace of its own, in which the
# interface of IP over InfiniBand of that is: verbs and rdma_cm between them, limits of locked
# memory, user namespaces, containers that are killed, and HCAs that containers make. HCAs are
# seen by all (shared), or each in one namespace alone (exclusive).
#
#     containers.sh [shared|exclusive]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/ip.sh"

MODE=${1:-shared}

# podman_ COMMAND...: podman, with what there is in a guest.
podman_() {
	timeout -k 5 120 podman --root /tmp/containers --runroot /tmp/containers/run --storage-driver vfs \
		--cgroup-manager cgroupfs --events-backend none "$@"
}

# contained POD [OPTION]... -- COMMAND...: runs it in a container in the network namespace podN, whose
# root is that of the guest, but what is written there is lost.
contained() {
	local pod=$1 options=()
	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	podman_ run --rm --network "ns:/run/netns/pod$pod" ${options[@]+"${options[@]}"} --rootfs /:O "$@"
}

# with_hca POD [OPTION]... -- COMMAND...: the same with the HCA of that pod.
with_hca() {
	local pod=$1
	shift
	contained "$pod" --device "${DEVICE[pod]}" --device /dev/infiniband/rdma_cm "$@"
}

# refused TEXT COMMAND...: it fails and says that.
refused() {
	local text=$1
	shift
	printf '$ %s\n' "$*"
	! "$@" >/tmp/refused 2>&1 || fail "it is not refused"
	grep -i "$text" /tmp/refused || fail "it says: $(cat /tmp/refused)"
}

listens() {
	[ -n "$(ip netns exec "pod$1" ss -Htln "sport = :$2")" ]
}

# together SERVER CLIENT: runs `contained`'s words of SERVER in pod1, and those of CLIENT in pod2 once a TCP
# port, PORT, is listened at in pod1. Both are to succeed.
together() {
	local server=$1 client=$2 pid
	# shellcheck disable=SC2086 # words
	with_hca 1 $server >/tmp/server 2>&1 &
	pid=$!
	within 60 listens 1 "$PORT" || fail "the server does not listen: $(cat /tmp/server)"
	# shellcheck disable=SC2086 # words
	run with_hca 2 $client
	wait $pid || fail "status $? of the server: $(cat /tmp/server)"
	PORT=$((PORT + 1))
}

# on POD COMMAND...: by the way of its namespace.
on() {
	local pod=$1
	shift
	ip netns exec "pod$pod" "$@"
}

# host_sees HCA...: the namespace of the host has these, and no others.
host_sees() {
	local links
	links=$(rdma link show) && [ "$(sed 's/^link \([^/]*\).*/\1/' <<<"$links" | sort -u | xargs)" = "$*" ]
}

mount | grep -q 'type cgroup2' || run mount -t cgroup2 none /sys/fs/cgroup
managed_by_module
run modprobe sib
run rdma system set netns "$MODE"
underlay sibnet0
hca_up sib0 sibnet0
hca_up sib1 sibnet0
run modprobe -a ib_ipoib rdma_ucm
wait_active 60 sib0 sib1

step "Two pods"
run ip link add lan0 type bridge
run ip link set lan0 up
for pod in 1 2; do
	hca=sib$((pod - 1))
	interface=$(ipoib_of $hca) || fail "$hca has no network interface"
	DEVICE[pod]=$(uverbs $hca)
	GUID[pod]=$(cat /sys/class/infiniband/$hca/node_guid)
	run ip netns add pod$pod
	run ip link add port$pod type veth peer name eth0 netns pod$pod
	run ip link set port$pod master lan0 up
	run ip -n pod$pod link set lo up
	run ip -n pod$pod link set eth0 up
	run ip -n pod$pod address add 10.9.0.$pod/24 dev eth0
	if [ "$MODE" = exclusive ]; then
		run rdma dev set $hca netns pod$pod
		interface=$(on $pod bash -c "$(declare -f ipoib_of); ipoib_of $hca") || fail "$hca has no interface in its pod"
	else
		run ip link set "$interface" netns pod$pod
	fi
	run ip -n pod$pod address add 10.8.0.$pod/24 dev "$interface"
	run ip -n pod$pod link set "$interface" up
done
within 60 on 1 ping -c 1 -W 1 10.8.0.2 || fail "no IP over InfiniBand between the pods"

step "What a container sees"
run with_hca 1 -- ibv_devinfo -l | tee /tmp/seen
grep -q '^1 HCA found' /tmp/seen && grep -qw sib0 /tmp/seen || fail "not its HCA, or not that alone"
run contained 1 -- ibv_devinfo -l | tee /tmp/seen
grep -q '^0 HCAs found' /tmp/seen || fail "an HCA that was not given"
if [ "$MODE" = exclusive ]; then
	host_sees || fail "the host still sees HCAs"
	run contained 2 --device "${DEVICE[1]}" -- ibv_devinfo -l | tee /tmp/seen
	grep -q '^0 HCAs found' /tmp/seen || fail "the HCA of another namespace"
else
	host_sees sib0 sib1 || fail "the host sees others"
fi

step "Verbs"
together "--ulimit memlock=-1 -- ibv_rc_pingpong -p $PORT -n 1000 -c" "--ulimit memlock=-1 -- ibv_rc_pingpong -p $PORT -n 1000 -c 10.9.0.1"
together "--ulimit memlock=-1 -- ibv_ud_pingpong -p $PORT -n 100" "--ulimit memlock=-1 -- ibv_ud_pingpong -p $PORT -n 100 10.9.0.1"

step "rdma_cm"
with_hca 1 --ulimit memlock=-1 -- rping -s -v -C 100 -a 10.8.0.1 >/tmp/server 2>&1 &
server=$!
rdma_listens() {
	on 1 rdma resource show cm_id | grep -q LISTEN
}
within 60 rdma_listens || fail "rping does not listen: $(cat /tmp/server)"
run with_hca 2 --ulimit memlock=-1 -- rping -c -C 100 -a 10.8.0.1
wait $server || fail "status $? of the server: $(cat /tmp/server)"
[ "$(grep -c 'ping data' /tmp/server)" = 100 ] || fail "not all messages have come: $(cat /tmp/server)"

step "Locked memory"
refused "couldn't" with_hca 1 --ulimit memlock=65536 -- ibv_rc_pingpong -p $PORT -s 1000000
together "--ulimit memlock=65536 --cap-add IPC_LOCK -- ibv_rc_pingpong -p $PORT -n 100 -s 1000000" "--ulimit memlock=65536 --cap-add IPC_LOCK -- ibv_rc_pingpong -p $PORT -n 100 -s 1000000 10.9.0.1"

step "User namespaces"
# Not by podman, which wants a root of its own for that.
mapped() {
	on "$1" unshare --map-root-user --mount "${@:2}"
}
mapped 1 ibv_rc_pingpong -d sib0 -p $PORT -n 100 >/tmp/server 2>&1 &
server=$!
within 60 listens 1 $PORT || fail "the server does not listen: $(cat /tmp/server)"
run mapped 2 ibv_rc_pingpong -d sib1 -p $PORT -n 100 10.9.0.1
wait $server || fail "status $? of the server: $(cat /tmp/server)"
PORT=$((PORT + 1))
refused "not permitted" mapped 1 rdma link add sib2 type sib netdev eth0
refused "not permitted" contained 1 -- rdma link add sib2 type sib netdev eth0

step "Connection management"
run modprobe sib_cm
# identified POD OTHER: whether a task in podPOD gets an identifier for the HCA of podOTHER.
identified() {
	on "$1" python3 - "${GUID[$2]//:/}" <<'END'
import fcntl
import struct
import sys

CREATE_ID = 0xC018CB00
with open("/dev/sib_cm", "r+b", 0) as cm:
    fcntl.ioctl(cm, CREATE_ID, struct.pack("=QQII", 0, int(sys.argv[1], 16), 0, 0))
END
}
run identified 1 1
if [ "$MODE" = exclusive ]; then
	refused "no such device" identified 1 2
else
	run identified 1 2
fi

step "A container that is killed"
with_hca 1 --name victim --ulimit memlock=-1 -- ib_write_bw -F -p $PORT -D 100 >/tmp/server 2>&1 &
within 60 listens 1 $PORT || fail "the server does not listen: $(cat /tmp/server)"
# sent: the packets of sib1, which the host does not see if it is exclusive.
sent() {
	local file=/sys/class/infiniband/sib1/ports/1/counters/port_xmit_packets
	cat $file 2>/dev/null || on 2 cat $file
}
before=$(sent)
with_hca 2 --ulimit memlock=-1 -- ib_write_bw -F -p $PORT -D 100 10.9.0.1 >/tmp/client 2>&1 &
client=$!
# in_use: there are more packets than those of management. That queue pairs are connected does not tell: the programs
# talk by TCP once more before they begin.
in_use() {
	[ "$(sent)" -gt $((before + 1000)) ]
}
within 60 in_use || fail "they do not send: $(cat /tmp/client)"
run podman_ kill victim
! wait $client || fail "its peer has not noticed"
# IBV_WC_RETRY_EXC_ERR.
grep 'Failed status 12' /tmp/client || fail "its peer says: $(cat /tmp/client)"
wait
no_objects
# What an HCA that is exclusive has is seen in its namespace alone.
for pod in 1 2; do
	within 20 on $pod bash -c "$(declare -f user_objects_gone); user_objects_gone" ||
		fail "objects are left: $(on $pod rdma resource show)"
done

if [ "$MODE" = exclusive ]; then
	step "An HCA that is moved while it is in use"
	run ip netns attach host $$
	with_hca 1 --ulimit memlock=-1 -- ib_write_bw -F -p $PORT -D 100 >/tmp/server 2>&1 &
	within 60 listens 1 $PORT || fail "the server does not listen: $(cat /tmp/server)"
	before=$(sent)
	with_hca 2 --ulimit memlock=-1 -- ib_write_bw -F -p $PORT -D 100 10.9.0.1 >/tmp/client 2>&1 &
	client=$!
	within 60 in_use || fail "they do not send: $(cat /tmp/client)"
	run on 1 rdma dev set sib0 netns host
	host_sees sib0 || fail "it does not come"
	! wait $client || fail "its peer has not noticed"
	grep 'Failed status 12' /tmp/client || fail "its peer says: $(cat /tmp/client)"
	wait
	within 20 port_active sib0 || fail "it is not managed"
	run rdma dev set sib0 netns pod1
	PORT=$((PORT + 1))
	DEVICE[1]=$(uverbs sib0)
	together "--ulimit memlock=-1 -- ibv_rc_pingpong -p $PORT -n 100" "--ulimit memlock=-1 -- ibv_rc_pingpong -p $PORT -n 100 10.9.0.1"
fi

step "An HCA of a container"
run contained 1 --cap-add NET_ADMIN -- rdma link add sib2 type sib netdev eth0
wait_active 60 sib2
run ip netns del pod1
gone() {
	[ ! -e /sys/class/infiniband/sib2 ]
}
within 20 gone || fail "it is there without its network device"

step "The end"
run ip netns del pod2
within 20 host_sees sib0 sib1 || fail "HCAs do not return: $(rdma link show)"
wait_active 60 sib0 sib1
run rdma link del sib0
run rdma link del sib1
run ip link del lan0
run modprobe -r ib_ipoib rdma_ucm sib_cm
run modprobe -r sib
