#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm-long: --icount --timeout 1800 -- 3
#
# What networks that lose and reorder datagrams leave of the bandwidth: perftest over
# a veth pair, sib and rxe in turn in one boot, medians of several rounds. netem
# treats both directions alike. Of a batch, which the network layer carries as one
# (UDP segmentation offload), it loses all or nothing; so sib is measured with its
# packets one by one as well, which a rule for faults has them do that strikes none.
# Under the instruction counter what else the machine does has no effect.
#
# Of what sib reaches without loss at least half must be left at 1 % of loss, and a
# fifth at 5 %; all runs of sib must come to their end, those under reordering too.
#
#     share.sh [ROUNDS [VERB...]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"

ROUNDS=${1:-3}
shift $(($# < 1 ? $# : 1))
VERBS=("$@")
[ ${#VERBS[@]} -gt 0 ] || VERBS=(send write read)
DEBUG=/sys/kernel/debug/sib
RESULTS=/tmp/share
SIZE=65536
# Messages of a run; fewer where rxe takes minutes for them.
MESSAGES=400
FEWER=60

# Networks by name: what netem does, and the least share in percent.
NETWORKS=(good loss-1 loss-5 reorder)
declare -A NETEM=([good]='limit 100000' [loss-1]='limit 100000 loss 1%' [loss-5]='limit 100000 loss 5%'
	[reorder]='limit 100000 delay 2ms reorder 25%')
declare -A LEAST=([loss-1]=50 [loss-5]=20)

# Ways by name: devices of both ends, and options of perftest.
WAYS=(sib sib-single rxe)
declare -A ENDS=([sib]='sib0 sib1' [sib-single]='sib0 sib1' [rxe]='rxe0 rxe1')

# network NAME: what the veth pair does from now on.
network() {
	# shellcheck disable=SC2086 # several words
	tc qdisc replace dev v0 root netem ${NETEM[$1]} || fail "netem"
	# shellcheck disable=SC2086
	tc -n far qdisc replace dev v1 root netem ${NETEM[$1]} || fail "netem"
}

# singly WAY: whether packets travel one by one.
singly() {
	local device
	for device in sib0 sib1; do
		echo clear >$DEBUG/$device/1/faults
		[ "$1" != sib-single ] || echo "drop out probability=0%" >$DEBUG/$device/1/faults
	done
}

# measure WAY NETWORK VERB: one figure, in MiB/s, to the results.
measure() {
	local options=(-n "$MESSAGES") figure
	[ "$2" != reorder ] || options=(-n "$FEWER")
	[ "$1" != rxe ] || options+=(-x 1)
	singly "$1"
	# shellcheck disable=SC2086
	(PORT=$((PORT + runs * 2)) && pair ${ENDS[$1]} ib_$3_bw -F -s $SIZE -u 14 "${options[@]}") >/tmp/perf 2>&1 || {
		[ "$1" = rxe ] || {
			cat /tmp/perf
			fail "$3 over $1, network $2"
		}
	}
	figure=$(awk -v s=$SIZE '$1 == s && NF >= 4 { print $4 }' /tmp/perf)
	runs=$((runs + 1))
	echo "$3 $2 $1 ${figure:-0}" >>$RESULTS
}

# median VERB NETWORK WAY
median() {
	awk -v v="$1" -v n="$2" -v w="$3" '$1 == v && $2 == n && $3 == w { print $4 }' $RESULTS | sort -g |
		awk '{ f[NR] = $1 } END { print f[int((NR + 1) / 2)] }'
}

run modprobe sib
run modprobe rdma_rxe
run modprobe sch_netem
configfs_up
mountpoint -q /sys/kernel/debug || run mount -t debugfs none /sys/kernel/debug
two_hosts
run rdma link add rxe0 type rxe netdev v0
run ip netns exec far rdma link add rxe1 type rxe netdev v1
for end in v0=10.9.0.2 v1=10.9.0.1; do
	mkdir $CONFIG/${end%=*} || fail "mkdir"
	echo ${end%=*} >$CONFIG/${end%=*}/netdev || fail "netdev"
	echo ${end#*=} >$CONFIG/${end%=*}/remote || fail "remote"
	echo 1 >$CONFIG/${end%=*}/enable || fail "enable"
done
within 20 switches sib0 2 || fail "no two switches"
opensm_up sib0
wait_active 60 sib0 sib1

runs=0
rm -f $RESULTS
for ((round = 1; round <= ROUNDS; round++)); do
	step "Round $round of $ROUNDS"
	for verb in "${VERBS[@]}"; do
		for network in "${NETWORKS[@]}"; do
			network $network
			for way in "${WAYS[@]}"; do
				measure $way $network $verb
			done
		done
	done
done

step "MiB/s of $SIZE bytes, medians of $ROUNDS rounds, and what is left of those without loss"
bad=
for verb in "${VERBS[@]}"; do
	for way in "${WAYS[@]}"; do
		best=$(median $verb good $way)
		line=$(printf '%-6s %-11s %8.1f' $verb $way "$best")
		for network in "${NETWORKS[@]:1}"; do
			figure=$(median $verb $network $way)
			share=$(awk -v f="$figure" -v b="$best" 'BEGIN { printf "%.0f", (b > 0 ? 100 * f / b : 0) }')
			line+=$(printf '  %s %8.1f (%3d %%)' $network "$figure" "$share")
			[ $way = rxe ] || [ "$share" -ge "${LEAST[$network]:-0}" ] || bad+=" $verb/$network/$way"
		done
		echo "$line"
	done
done
[ -z "$bad" ] || fail "less is left than should be:$bad"

opensm_down
run rdma link del rxe0
run rdma link del rxe1
run ip link del v0
gone() {
	[ ! -e /sys/class/infiniband/sib0 ] && [ ! -e /sys/class/infiniband/sib1 ]
}
within 20 gone || fail "the HCAs have outlived their underlays"
run rmdir $CONFIG/v0 $CONFIG/v1
run ip netns del far
run modprobe -r sib
