# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The Debian root: how it is made and how a command enters it. Sourced after
# common.sh.

# ca_bundle: the host's certificates, which may name an authority that only
# this host's network needs.
ca_bundle() {
	local file
	for file in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt \
		/etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem; do
		if [ -f "$file" ]; then
			echo "$file"
			return
		fi
	done
}

# enter ROOT BINDS COMMAND...: runs COMMAND in ROOT as the only inhabitants of a
# mount and a process namespace, so that neither a mount nor a process outlives
# it, however it ends. BINDS holds "HOST-PATH:PATH-IN-ROOT" words, or is empty.
enter() {
	local root=$1 binds=$2 pid status=0
	shift 2
	# shellcheck disable=SC2016 # the script is for the inner shell
	local inside='
		set -e
		root=$1 binds=$2 ca=$3; shift 3
		mount -t proc proc "$root/proc"
		mount --rbind /dev "$root/dev"
		mount -t tmpfs tmpfs "$root/tmp"
		cat /etc/resolv.conf >"$root/etc/resolv.conf" 2>/dev/null || true
		[ -z "$ca" ] || [ ! -f "$root/etc/ssl/certs/ca-certificates.crt" ] ||
			mount --bind "$ca" "$root/etc/ssl/certs/ca-certificates.crt"
		for bind in $binds; do
			mkdir -p "$root${bind#*:}"
			mount --bind "${bind%%:*}" "$root${bind#*:}"
		done
		chroot "$root" "$@" && exit 0 || exit $?'
	local -a keep=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
		HOME=/root "TERM=${TERM:-dumb}" LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive)
	local name
	for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY ${ROOT_ENV:-}; do
		[ -z "${!name+set}" ] || keep+=("$name=${!name}")
	done

	setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child \
		env -i "${keep[@]}" sh -c "$inside" sh "$root" "$binds" "$(ca_bundle)" "$@" <&0 &
	pid=$!
	trap 'kill -KILL $pid 2>/dev/null; wait $pid 2>/dev/null || true; exit 130' INT
	trap 'kill -KILL $pid 2>/dev/null; wait $pid 2>/dev/null || true; exit 143' TERM HUP
	wait "$pid" || status=$?
	trap - INT TERM HUP
	return "$status"
}

# may_mount: ends a tool that may not, as in most containers.
may_mount() {
	unshare --mount true 2>/dev/null ||
		die "root may not mount anything here, which this needs" "in a container: make that a privileged one"
}

have_debootstrap() {
	command -v debootstrap >/dev/null && return
	if command -v apt-get >/dev/null; then
		say "installing debootstrap on this machine"
		apt-get install -y --no-install-recommends debootstrap >&2 ||
			{ apt-get update >&2 && apt-get install -y --no-install-recommends debootstrap >&2; } || true
	fi
	command -v debootstrap >/dev/null || die "debootstrap is missing" \
		"install it with the package manager of this machine (every distribution has it), and run this again"
}

# mirror: the package mirror; https wants certificates on this machine.
mirror() {
	if [ -n "${SIB_MIRROR:-}" ]; then
		echo "$SIB_MIRROR"
	elif [ -n "$(ca_bundle)" ]; then
		echo https://deb.debian.org/debian
	else
		echo http://deb.debian.org/debian
	fi
}

# host_apt_options: what this machine's apt was told about the network and the
# clock holds for the root as well.
host_apt_options() {
	command -v apt-config >/dev/null || return 0
	apt-config dump | grep -E '^Acquire::(Check-|http::|https::|ForceIPv|Retries)' || true
}

# make_base SCRATCH: a minimal root with all suites.
make_base() {
	local suite
	have_debootstrap
	quietly "$CACHE/log/base" "making a Debian $SUITE root" \
		debootstrap --variant=minbase --include=ca-certificates "$SUITE" "$1" "$(mirror)"
	for suite in "$SUITE" "$SUITE-updates" "$SUITE-backports"; do
		echo "deb $(mirror) $suite main"
	done >"$1/etc/apt/sources.list"
	{
		echo 'APT::Install-Recommends "false";'
		echo 'Acquire::Languages "none";'
		host_apt_options
	} >"$1/etc/apt/apt.conf.d/90sib"
	echo 'force-unsafe-io' >"$1/etc/dpkg/dpkg.cfg.d/sib"
	printf 'path-exclude /usr/share/%s/*\n' man info locale >>"$1/etc/dpkg/dpkg.cfg.d/sib"
	# No service of a package may start while it is installed.
	printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d"
	chmod 755 "$1/usr/sbin/policy-rc.d"
	quietly "$CACHE/log/base-update" "reading the package index" enter "$1" "" apt-get update
}

# base_root: that root, made on first use. Its name is said before it is there: who copies it
# and was told none would copy the root of this machine.
base_root() {
	local dir
	dir=$CACHE/base-$(hash_of "$SUITE" "$(declare -f make_base)")
	echo "$dir"
	[ -d "$dir" ] || may_mount
	once "$dir" make_base
}

# make_root SCRATCH NAME PACKAGE...: the base with packages on top.
make_root() {
	local scratch=$1 name=$2
	shift 2
	cp -a "$(base_root)/." "$scratch/"
	quietly "$CACHE/log/$name" "installing $# packages and what they need into the $name root" \
		enter "$scratch" "" sh -c 'apt-get update && apt-get install -y "$@" && apt-get clean' sh "$@"
}

# build_root: the root of compilers and QEMU, made on first use.
build_root() {
	local dir
	local -a names
	mapfile -t names < <(packages "$TREE/tools/root/compile.packages" "$TREE/tools/root/tools.packages")
	dir=$CACHE/build-$(hash_of "$SUITE" "${names[@]}" "$(declare -f make_base make_root)")
	once "$dir" make_root build "${names[@]}"
	echo "$dir"
}

# root_run COMMAND...: in the build root, with the tree at /src and the cache at
# /cache, whatever they are called outside. ROOT_BINDS may add binds.
root_run() {
	local root
	root=$(build_root)
	# Without one, what follows would happen to the root of this machine.
	[ -d "$root" ] || exit
	may_mount
	enter "$root" "$TREE:/src $CACHE:/cache ${ROOT_BINDS:-}" "$@"
}
