#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 200 -- module
# vm-long: --kernel stock --timeout 200 -- opensm
# vm-long: --kernel debug --timeout 600 -- module
#
# Paths between several ports (MultiPathRecord): the subnet administration of the module
# answers as that of OpenSM does.
#
#     multipath.sh module|opensm

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"
. "$(dirname "$0")/diags.sh"

MANAGER=${1:?who manages the subnet}
MTU_4096=5

# short GID: as programs write it.
short() {
	python3 -c 'import ipaddress, sys; print(ipaddress.ip_address(sys.argv[1]))' "$1"
}

# way DEVICE PORT DEVICE PORT: what is to be said of the path.
way() {
	echo "$(short "$(gid "$1" "$2")") $(short "$(gid "$3" "$4")") $(lid "$1" "$2") $(lid "$3" "$4") $MTU_4096"
}

# ways [DEVICE PORT DEVICE PORT]...: what is to be said of all these.
ways() {
	while [ $# -gt 0 ]; do
		way "$1" "$2" "$3" "$4"
		shift 4
	done
}

# asked WORD...: what is said to a request.
asked() {
	printf '$ multipath %s\n' "$*"
	SAID=$(timeout -k 5 60 "$USER_PROGRAMS/multipath" "$@") || fail "status $? of: multipath $*"
}

# answer TEXT: it was this.
answer() {
	[ "$SAID" = "$1" ] || fail "not the answer: $SAID, but: $1"
}

[ "$MANAGER" = opensm ] || managed_by_module
hcas_up
[ "$MANAGER" = module ] || opensm_up sib0
wait_active 60 sib0 sib1
near=$(gid sib0 1) other=$(gid sib0 2) far=$(gid sib1 1) distant=$(gid sib1 2)

step "Paths of all pairs"
asked sib0 1 0 "$near" "$far"
answer "$(ways sib0 1 sib1 1)"
asked sib0 2 0 "$near" "$other" "$far" "$distant"
[ "$(sort <<<"$SAID")" = "$(ways sib0 1 sib1 1 sib0 1 sib1 2 sib0 2 sib1 1 sib0 2 sib1 2 | sort)" ] ||
	fail "not the four paths: $SAID"
asked sib1 2 3 "$near" "$other" "$far" "$distant"
[ "$(wc -l <<<"$SAID")" = 3 ] || fail "not three paths: $SAID"

step "A path and an alternate one: no port is in both"
asked sib0 2 2 "$near" "$other" "$far" "$distant"
SAID=$(sort <<<"$SAID")
[ "$SAID" = "$(ways sib0 1 sib1 1 sib0 2 sib1 2 | sort)" ] ||
	[ "$SAID" = "$(ways sib0 1 sib1 2 sib0 2 sib1 1 | sort)" ] || fail "not two such paths: $SAID"

step "As many ports as a request has room for"
asked sib0 5 0 "$near" "$near" "$near" "$near" "$near" "$far" "$far" "$far" "$far" "$far" "$far"
[ "$(grep -cx "$(way sib0 1 sib1 1)" <<<"$SAID")" = 30 ] || fail "not thirty times that path: $SAID"

step "What is refused"
asked sib0 1 0 "$near" fe80::dead
answer "refused 0x500"
asked sib0 1 0 "$near"
answer "refused 0x200"
opensm_down
for name in sib0 sib1; do
	run rdma link del "$name"
done
run modprobe -r sib
