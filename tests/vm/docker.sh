#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 400 --package docker.io --package docker-cli
#
# Docker as it comes: containers that are given one HCA each, and pods (containers that share a network
# namespace) with an HCA on their own eth0, which are hosts that find each other over Docker's bridge, or
# do not where it has no IPv6. A container that is killed, and one that is removed with its HCA.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"

IMAGE=verbs

# loaded FILE...: these programs or libraries, and the libraries that they load.
loaded() {
	local file
	for file; do
		echo "$file"
		ldd "$file" | grep -o '/[^ ]*'
	done
}

# image PROGRAM...: makes an image of those, and of libibverbs with the provider that they need.
image() {
	local program
	{
		for program; do
			loaded "$(command -v "$program")"
		done
		loaded /usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav*.so
		echo /etc/libibverbs.d/rxe.driver
	} | sort -u | sed 's,^/,,' >/tmp/files
	tar -C / -hcf - -T /tmp/files | docker import - $IMAGE || fail "no image"
}

# inside CONTAINER COMMAND...: in its network namespace.
inside() {
	local pid
	pid=$(docker inspect -f '{{.State.Pid}}' "$1")
	nsenter "--net=/proc/$pid/ns/net" "${@:2}"
}

listens() {
	[ -n "$(inside "$1" ss -Htln "sport = :$2")" ]
}

# verbs HCA OPTION...: the words of containers.rst.
verbs() {
	timeout -k 5 120 docker run --device "$(uverbs "$1")" --ulimit memlock=-1 "${@:2}"
}

# networks [SERVER CLIENT]: where the containers of both sides are from now on, as `docker run --network` has it.
networks() {
	SERVER_NETWORK=${1:-bridge} CLIENT_NETWORK=${2:-bridge}
}

# between SERVER CLIENT COMMAND...: runs it as the server in a container that is given that HCA, and as the client
# in another one.
between() {
	local server=$1 client=$2 address pid
	shift 2
	PORT=$((PORT + 1))
	verbs "$server" --rm --name server --network "$SERVER_NETWORK" $IMAGE "$@" -p $PORT >/tmp/server 2>&1 &
	pid=$!
	within 60 listens server $PORT || fail "the server does not listen: $(cat /tmp/server)"
	address=$(inside server hostname -I | cut -d ' ' -f 1)
	run verbs "$client" --rm --network "$CLIENT_NETWORK" $IMAGE "$@" -p $PORT "$address"
	wait $pid || fail "status $? of the server: $(cat /tmp/server)"
}

# pod NAME NETWORK HCA: a network namespace that containers can join, with an HCA on its eth0.
pod() {
	run docker run -d --name "$1" --network "$2" $IMAGE sleep 1000
	run inside "$1" rdma link add "$3" type sib netdev eth0
}

gone() {
	[ ! -e "/sys/class/infiniband/$1" ]
}

mount | grep -q 'type cgroup2' || run mount -t cgroup2 none /sys/fs/cgroup
as_it_comes

step "Docker"
dockerd --data-root /tmp/docker --storage-driver vfs >/tmp/dockerd.log 2>&1 &
within 60 docker info || fail "no Docker: $(tail -n 20 /tmp/dockerd.log)"
docker version --format '{{.Server.Version}}'
image ibv_devinfo ibv_rc_pingpong ibv_ud_pingpong ib_write_bw sleep

step "HCAs of the host"
run modprobe sib
underlay sibnet0
hca_up sib0 sibnet0
hca_up sib1 sibnet0
wait_active 60 sib0 sib1
networks
verbs sib0 --rm $IMAGE ibv_devinfo -l | tee /tmp/seen
grep -q '^1 HCA found' /tmp/seen && grep -qw sib0 /tmp/seen || fail "not its HCA, or not that alone"
between sib0 sib1 ibv_rc_pingpong -n 1000 -c
between sib0 sib1 ibv_ud_pingpong -n 100

step "A container that is killed"
PORT=$((PORT + 1))
verbs sib0 --rm --name server $IMAGE ib_write_bw -F -p $PORT -D 100 >/tmp/server 2>&1 &
within 60 listens server $PORT || fail "the server does not listen: $(cat /tmp/server)"
address=$(inside server hostname -I | cut -d ' ' -f 1)
sent() {
	cat /sys/class/infiniband/sib1/ports/1/counters/port_xmit_packets
}
before=$(sent)
verbs sib1 --rm $IMAGE ib_write_bw -F -p $PORT -D 100 "$address" >/tmp/client 2>&1 &
client=$!
# in_use: there are more packets than those of management. That queue pairs are connected does not tell: the programs
# talk by TCP once more before they begin.
in_use() {
	[ "$(sent)" -gt $((before + 1000)) ]
}
within 60 in_use || fail "they do not send: $(cat /tmp/client)"
run docker kill server
! wait $client || fail "its peer has not noticed"
# IBV_WC_RETRY_EXC_ERR.
grep 'Failed status 12' /tmp/client || fail "its peer says: $(cat /tmp/client)"
all_ended() {
	[ -z "$(docker ps -q)" ]
}
within 20 all_ended || fail "containers are left: $(docker ps)"

step "Pods that are hosts"
run docker network create --ipv6 --subnet fd00:9::/64 fabric
pod pod1 fabric sib11
pod pod2 fabric sib12
wait_active 60 sib11 sib12
within 60 switches sib11 2 || fail "they are no subnet: $(ibswitches -C sib11)"
# The cable is there before one of the two subnet managers has made one subnet of both, with other LIDs.
within 60 routed sib11 sib12 && within 60 routed sib12 sib11 || fail "no way between sib11 and sib12"
networks container:pod1 container:pod2
between sib11 sib12 ibv_rc_pingpong -n 1000 -c

step "No IPv6, no neighbours"
pod pod3 bridge sib13
pod pod4 bridge sib14
wait_active 60 sib13 sib14
within 20 sh -c "dmesg | grep -q 'no beacons leave the underlay'" || fail "the kernel log does not say so"
switches sib13 1 || fail "there is something beside it: $(ibswitches -C sib13)"

step "Pods go with their HCAs"
run docker rm -f pod1
within 20 gone sib11 || fail "it is there without its network device"
# The other is a subnet of its own.
within 60 switches sib12 1 || fail "its switch is still there: $(ibswitches -C sib12)"
run docker rm -f pod2 pod3 pod4
for hca in sib12 sib13 sib14; do
	within 20 gone $hca || fail "$hca is there without its network device"
done

step "The end"
run rdma link del sib0
run rdma link del sib1
run modprobe -r sib
