# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What tests share in which sib_cm sees to connections of ib_cm. Sourced after rails.sh.

SEEN=/sys/kernel/debug/sib_cm/watched

# seen WHAT: a number of the file.
seen() {
	awk -v what="$1" '$1 == what { print $2 }' $SEEN
}

# established: the connections that are.
established() {
	grep ' Established ' $SEEN
}

# ends NUMBER WORD...: so many ends of connections are established, and each says that.
ends() {
	local count=$1
	shift
	[ "$(established | wc -l)" = "$count" ] &&
		[ "$(established | grep -c -- "$*")" = "$count" ]
}

# armed NUMBER: so many ends may migrate.
armed() {
	[ "$(rdma resource show qp | grep -c 'path-mig-state ARMED')" -ge "$1" ]
}

# cut_off PORT: both directions of that port of sib1 are dead.
cut_off() {
	run $HOOK pull "$1" 2
}

mend() {
	run $HOOK mend "$1"
}

# moved NUMBER: so many queue pairs have gone over since the module was loaded.
moved() {
	[ "$(seen migrations)" -ge "$1" ]
}
