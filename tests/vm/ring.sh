#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 300 -- 3
# vm-long: --kernel stock --timeout 2400 -- 100
# vm-long: --kernel debug --timeout 1200 -- 3
#
# A ring of three hosts: three switches with a cable between each two of them. At random
# one host is cut off, then the cable between the other two, while these have a reliable
# connection of which every byte is checked: it is never lost, and the third host returns.
# Ends of a cable that has gone silent are down within a second, and the connection does not
# stand still for long once that is known.
#
#     ring.sh [ROUNDS [SEED]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables.sh"
. "$(dirname "$0")/lan.sh"
. "$(dirname "$0")/user.sh"

rounds=${1:-3} seed=${2:-$RANDOM}
RANDOM=$seed
HOSTS=3
# Two links of each HCA, and the cables.
LINKS=$((2 * HOSTS + 3))

# The debug kernel is a lot slower.
case $(uname -r) in
*debug*) soon=120 messages=20 most=40000 usual=12000 death=4000 ;;
*) soon=90 messages=100 most=10000 usual=3000 death=1300 ;;
esac

# whole DEVICE: the whole fabric is seen from there.
whole() {
	links "$1" $LINKS && port_active "$1"
}

STALLS=/tmp/stalls

# uptime: since the guest was booted, in hundredths of a second.
uptime() {
	local since
	read -r since _ </proc/uptime
	echo "${since/./}"
}

# stalls DEVICE: writes down when less than ten packets came in for a fifth of a second, from
# when to when.
stalls() {
	local file=/sys/class/infiniband/$1/ports/1/counters/port_rcv_packets
	local now count since known
	since=$(uptime)
	known=$(<"$file")
	while sleep 0.01; do
		now=$(uptime)
		count=$(<"$file")
		[ "$count" -ge $((known + 10)) ] || continue
		[ $((now - since)) -lt 20 ] || echo "$since $now" >>$STALLS
		since=$now known=$count
	done
}

# reroutes: of each stall how long it was, and if a cable went down meanwhile, how long
# after that it ended, in milliseconds.
reroutes() {
	dmesg | sed -n 's/^\[ *\([0-9]*\)\.\([0-9][0-9]\).*the cable of .* is down.*/\1\2/p' >/tmp/downs
	awk 'NR == FNR { down[++downs] = $1; next }
		{ after = 0
		  for (at = 1; at <= downs; at++)
			if (down[at] >= $1 && $2 - down[at] > after) after = $2 - down[at]
		  print ($2 - $1) * 10, after * 10 }' /tmp/downs $STALLS
}

# longest COLUMN
longest() {
	reroutes | awk -v column="$1" '$column > most { most = $column } END { print most + 0 }'
}

# usual_reroute: half of the stalls in which a cable went down ended as soon after that.
usual_reroute() {
	reroutes | awk '$2 > 0 { print $2 }' | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] + 0 }'
}

DEATHS=/tmp/deaths

# went_down HOST SINCE: how long after that the last cable to the host went down, in milliseconds, if it did.
went_down() {
	local at
	at=$(dmesg | sed -n "s/^\[ *\([0-9]*\)\.\([0-9][0-9]\).*the cable of .* to 10\.9\.0\.$1:.* is down.*/\1\2/p" | tail -n 1)
	[ "${at:-0}" -ge "$2" ] && echo $(((at - $2) * 10))
}

# deaths HOST HOST SINCE SINCE: writes down how long it took until both ends of the cable between
# these were down, the first of which is not heard since then, and the second one.
deaths() {
	local first second
	# If the guest stood still meanwhile, an end may have been down before the time was taken.
	second=$(went_down "$1" "$3") && first=$(went_down "$2" "$4") || return 0
	echo $((first > second ? first : second)) >>$DEATHS
}

# is_prompt: the connection has usually not stood still for long, and a cable was down as soon as it is to be.
is_prompt() {
	[ "$(usual_reroute)" -le $usual ] && [ -s $DEATHS ] && [ "$(sort -n $DEATHS | head -n 1)" -le $death ]
}

# round NUMBER
round() {
	local third=$((RANDOM % HOSTS + 1)) a b began=$SECONDS unheard alone
	a=$((third % HOSTS + 1))
	b=$((a % HOSTS + 1))
	step "Round $1: host $third is cut off, hosts $a and $b have a connection"
	load "sib$a" "sib$b"
	stalls "sib$b" &
	STALLS_OF=$!
	run ip link set "port$third" down
	load_goes_on "when the host is cut off"
	within "$soon" switches "sib$a" 2 || fail "host $third is still there"
	load_goes_on "without the host"
	run ip link set "port$third" up
	within "$soon" whole "sib$a" || fail "host $third has not returned"
	within "$soon" whole "sib$third" || fail "host $third does not see the others"
	load_goes_on "when the host is back"
	lose_way "$a" "$b"
	unheard=$(uptime)
	lose_way "$b" "$a"
	alone=$(uptime)
	within "$soon" links "sib$third" $((LINKS - 1)) || fail "the cable is still there"
	deaths "$a" "$b" "$unheard" "$alone"
	load_goes_on "the other way round"
	speak "$a" "$b"
	within "$soon" whole "sib$a" || fail "the cable has not come back"
	load_goes_on "by the cable again"
	kill $STALLS_OF || fail "nobody has looked for stalls"
	wait $STALLS_OF 2>/dev/null
	load_ends
	cable_pair "sib$third" "sib$a" ibv_rc_pingpong -n $messages
	cable_pair "sib$b" "sib$third" ibv_rc_pingpong -n $messages
	printf 'round %d: %d s\n' "$1" $((SECONDS - began))
}

managed_by_module
run modprobe sib
configfs_up
ring_of_hosts $HOSTS
for ((host = 1; host <= HOSTS; host++)); do
	within "$soon" whole "sib$host" || fail "host $host is not in the ring"
done
printf 'seed %d\n' "$seed"
: >$STALLS
: >$DEATHS
# A machine that was slow for a while has some more.
for ((number = 1; number <= rounds + 3; number++)); do
	[ "$number" -le "$rounds" ] || ! is_prompt || break
	round $number
done
printf 'the connection stood still %d times, for %d ms at most, %d ms at most after a cable had gone down\n' \
	"$(wc -l <$STALLS)" "$(longest 1)" "$(longest 2)"
printf 'half of them for %d ms at most; cables that had gone silent were down after %s ms\n' \
	"$(usual_reroute)" "$(sort -n $DEATHS | xargs)"
# What goes by a cable stands still until that is known to be down.
[ "$(longest 2)" -gt 0 ] || fail "no stall has been seen: $(xargs <$STALLS)"
[ "$(longest 2)" -le $most ] || fail "the connection stood still for long: $(reroutes | xargs)"
[ "$(usual_reroute)" -le $usual ] || fail "the connection usually stands still for long: $(reroutes | xargs)"
# A second, which tests/host/cable.rs holds them to; a guest that stands still for a moment finds a cable dead later.
[ -s $DEATHS ] && [ "$(sort -n $DEATHS | head -n 1)" -le $death ] || fail "no cable was down within $death ms"
run rmdir $CONFIG/from*
for ((host = 1; host <= HOSTS; host++)); do
	run rdma link del "sib$host"
done
lan_down $HOSTS
run modprobe -r sib
