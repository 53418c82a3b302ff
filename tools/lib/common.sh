# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What every tool here needs: where things are, how it is called, how progress is
# shown, how a cached item is made once. Sourced, never run.

set -euo pipefail
shopt -s inherit_errexit

# Root by su alone has the path of a user, without debootstrap, chroot and depmod.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
TREE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
CACHE=${SIB_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/sib}
SUITE=${SIB_SUITE:-trixie}
# SIB_KERNEL is a series, 7.2, or a release of one, 7.2.12+deb13-amd64.
OLDEST_SERIES=7.2
RELEASE=${SIB_KERNEL:-$OLDEST_SERIES}
SERIES=$(cut -d . -f 1,2 <<<"$RELEASE")

# The tree may belong to the user who called sudo.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=$TREE

# say TEXT...: one line of progress, with the time since the command began.
say() {
	printf '[%3d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*" >&2
}

# die_with STATUS WHAT WHAT-TO-DO, die WHAT WHAT-TO-DO: every failure names its remedy.
die_with() {
	printf 'sib: %s\n' "${@:2}" >&2
	exit "$1"
}

die() {
	die_with 1 "$@"
}

# misuse WHAT: the end of a tool that was called in a wrong way.
misuse() {
	die_with 2 "$1" "see ${0#"$TREE/"} --help"
}

# usage: the help of a tool, which is the comment at its head.
usage() {
	sed -n '4,/^[^#]\|^$/s/^#\( \|$\)//p' "$0"
}

# offer_help ARG...: prints it and ends the tool, if the first argument asks for it.
offer_help() {
	case ${1:-} in
	--help | -h)
		usage
		exit
		;;
	esac
}

# arguments MOST ARG...: as offer_help, and ends a tool that takes up to so many arguments
# and no other option if it was called in a wrong way.
arguments() {
	local most=$1
	shift
	offer_help "$@"
	[[ ${1:-} != -* ]] || misuse "no option $1"
	[ $# -le "$most" ] || misuse "too many arguments: $*"
}

# number WHAT VALUE LEAST: VALUE, or an end with a hint.
number() {
	[[ $2 =~ ^[0-9]{1,7}$ ]] && [ "$2" -ge "$3" ] ||
		misuse "$1 wants a number from $3 up, not '$2'"
	echo $((10#$2))
}

# need_root: ends a tool that is not root, and makes the cache of one that is.
need_root() {
	[ "$(id -u)" = 0 ] || die "this needs root (debootstrap, chroot, mount)" \
		"run it with sudo; if the cache is yours, with SIB_CACHE behind sudo or make: sudo make ... SIB_CACHE=$CACHE"
	mkdir -p "$CACHE"/{lock,log} || die "cannot make the cache folder $CACHE" "set SIB_CACHE to a folder that can be written"
	# Tools that this one calls may be called from elsewhere.
	CACHE=$(cd "$CACHE" && pwd)
	export SIB_CACHE=$CACHE
	[[ $CACHE != *[[:space:]:]* ]] || die "spaces and colons in '$CACHE' cannot be handled" "set SIB_CACHE to another folder"
	[[ $TREE != *[[:space:]:]* ]] || die "spaces and colons in '$TREE' cannot be handled" "move the tree to another folder"
}

# hash_of FILE-OR-STRING...: the name of a cached item is the hash of what it
# is made from; an argument that names a file stands for its content.
hash_of() {
	local arg
	for arg; do
		if [ -f "$arg" ]; then cat "$arg"; else printf '%s\n' "$arg"; fi
	done | sha256sum | cut -c1-12
}

# packages FILE...: the packages that lists name, comments left out.
packages() {
	sed -e 's/#.*//' "$@" | xargs -n 1
}

# quietly LOG WHAT COMMAND...: runs COMMAND with its output in LOG, shows that
# it is alive, and prints the end of LOG if it fails.
quietly() {
	local log=$1 what=$2 pid status=0 began=$SECONDS shown=$SECONDS
	shift 2
	say "$what"
	"$@" >"$log" 2>&1 &
	pid=$!
	trap 'kill -TERM $pid 2>/dev/null; exit 130' INT TERM HUP
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.2
		if [ $((SECONDS - shown)) -ge 20 ]; then
			shown=$SECONDS
			say "$what: $((SECONDS - began)) s, $(tail -n 1 "$log" | tr -d '\r' | cut -c1-60)"
		fi
	done
	wait "$pid" || status=$?
	trap - INT TERM HUP
	if [ "$status" != 0 ]; then
		tail -n 60 "$log" >&2
		die "failed: $what" "the whole log is $log; run the same command again once the cause is gone"
	fi
}

# once TARGET MAKER ARG...: makes the cached folder TARGET unless it is there.
# MAKER is called with a scratch folder before its ARGs; that folder takes the
# name TARGET when MAKER has succeeded, so TARGET is whole or absent. Two
# commands that want the same item wait for each other.
once() {
	local target=$1 scratch lock
	shift
	[ -d "$target" ] && return
	mkdir -p "$CACHE/lock" "$CACHE/log"
	exec {lock}>"$CACHE/lock/$(basename "$target")"
	flock -n "$lock" || {
		say "waiting for another command that makes $(basename "$target")"
		flock "$lock"
	}
	if [ ! -d "$target" ]; then
		scratch=$target.new
		rm -rf --one-file-system "$scratch"
		mkdir -p "$scratch"
		"$1" "$scratch" "${@:2}"
		mv "$scratch" "$target"
	fi
	exec {lock}>&-
}
