# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The second host is another guest, where commands run by ssh: in the guest is
# openssh-server. Sourced after guests.sh, ip.sh and cm.sh, whose programs find it so.

SSH=/tmp/ssh
SENDERS=20 SENT=$((10 * few))

# remote_up: on each guest all others may run commands.
remote_up() {
	run mkdir -p $SSH /run/sshd
	run ssh-keygen -q -t ed25519 -N '' -f $SSH/key
	cat $SSH/key.pub >"/share/key.$NODE"
	echo "$NEAR_IF" >"/share/interface.$NODE"
	barrier keys
	cat /share/key.* >$SSH/authorized
	run /usr/sbin/sshd -o "AuthorizedKeysFile=$SSH/authorized" -o StrictModes=no -o UsePAM=no -o MaxSessions=50
	within 20 listening 22 || fail "sshd does not listen"
	barrier served
}

# shell ADDRESS [WORD...]: a shell there; without words, or options of ssh before them, it
# shares one connection with all others.
shell() {
	ssh -i $SSH/key -o "ControlPath=$SSH/%h" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
		-o LogLevel=ERROR -o ConnectTimeout=30 "$@"
}

# far_host HOST: which one the second host is, from now on.
far_host() {
	FAR=$(host "$1") FAR6=$(host6 "$1") FAR_IF=$(cat "/share/interface.$1") FAR_HCA=sib0
	FAR_UNDERLAY=10.77.0.$1
	NEAR=$(host "$NODE") NEAR6=$(host6 "$NODE")
	step "From host $NODE to host $1"
	shell -o ControlMaster=yes -o ControlPersist=yes "$FAR_UNDERLAY" true >/dev/null 2>&1 </dev/null ||
		fail "no shell on host $1"
}

# far_left: no commands there any more.
far_left() {
	shell -O exit "$FAR_UNDERLAY" 2>/dev/null
}

far() {
	shell "$FAR_UNDERLAY" "$(printf '%q ' "$@")" </dev/null
}

# downs: how often a cable of either host has gone down.
downs() {
	{ dmesg; far dmesg; } | grep -c 'sib: .* the cable of .* is down'
}

# unbroken COMMAND...: must succeed. To a host that gets no processor for a second the cable
# is gone, and what is under way lost: that is a reason to try again, and the only one.
unbroken() {
	local before
	for _ in 1 2 3; do
		before=$(downs)
		! ("$@") || return 0
		[ "$(downs)" != "$before" ] || break
		step "A cable has been down meanwhile"
		far pkill -x timeout
		within $soon links sib0 $LINKS || fail "the cable has not come back"
	done
	fail "$*"
}

cm_listens() {
	far rdma resource show cm_id | grep -Eq "state LISTEN.*:$1( |$)|:$1 .*state LISTEN"
}

# long_stream: what a shell by way of the fabric is told comes back as it was.
long_stream() {
	step "A stream by ssh, over the fabric"
	head -c 4000000 /dev/urandom >/tmp/said
	timeout -k 5 200 ssh -i $SSH/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
		-o LogLevel=ERROR "$FAR" cat </tmp/said >/tmp/echoed || fail "ssh by $FAR"
	run cmp /tmp/said /tmp/echoed
}
