# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Several hosts in one guest: network namespaces on the bridge lan0. Host N has the network
# device lanN with the address 10.9.0.N. Sourced after lib.sh and cables.sh.

# lan HOSTS: makes them.
lan() {
	local host
	run ip link add lan0 type bridge
	run ip link set lan0 mtu 9000 up
	for ((host = 1; host <= $1; host++)); do
		run ip netns add "host$host"
		run ip link add "port$host" type veth peer name "lan$host" netns "host$host"
		run ip link set "port$host" mtu 9000 master lan0 up
		run ip -n "host$host" link set "lan$host" mtu 9000 up
		run ip -n "host$host" address add "10.9.0.$host/24" dev "lan$host"
	done
}

# lan_down HOSTS: undoes it.
lan_down() {
	local host
	for ((host = 1; host <= $1; host++)); do
		run ip netns del "host$host"
	done
	run ip link del lan0
}

# host_hca HOST: an HCA there, sibN.
host_hca() {
	run ip netns exec "host$1" rdma link add "sib$1" type sib netdev "lan$1"
}

# tie HOST HOST: a cable between their switches, plugged in at both ends. There is a
# switch at both, or the network device would not be found from here.
tie() {
	cable "from$1to$2" "lan$1" "10.9.0.$2"
	cable "from$2to$1" "lan$2" "10.9.0.$1"
}

# ring_of_hosts HOSTS: makes them, with an HCA each, and a cable from each to the next.
ring_of_hosts() {
	local host
	lan "$1"
	for ((host = 1; host <= $1; host++)); do
		host_hca $host
	done
	for ((host = 1; host <= $1; host++)); do
		tie $host $((host % $1 + 1))
	done
}

# silence HOST HOST: what one sends the other gets lost, and the reverse.
silence() {
	lose_way "$1" "$2"
	lose_way "$2" "$1"
}

lose_way() {
	run ip -n "host$1" neigh replace "10.9.0.$2" lladdr 02:00:00:00:00:01 nud permanent dev "lan$1"
}

# speak HOST HOST: undoes it.
speak() {
	run ip -n "host$1" neigh del "10.9.0.$2" dev "lan$1"
	run ip -n "host$2" neigh del "10.9.0.$1" dev "lan$2"
}
