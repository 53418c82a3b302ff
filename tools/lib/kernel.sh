# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The kernels: which version, its packages and source, and the build folders
# that an out-of-tree Rust module needs. Sourced after root.sh.
#
# In the root, whatever the version, the source is at /kernel/source and the
# build folders at /kernel/stock and /kernel/debug, because build folders hold
# absolute paths.

JOBS=${SIB_JOBS:-$(nproc)}

# ask_index WHAT: reads the package index anew. For who comes second it would be locked, so he waits.
ask_index() {
	local lock
	# In plain sight, since the first use makes it.
	build_root >/dev/null
	exec {lock}>"$CACHE/lock/index"
	flock "$lock"
	quietly "$CACHE/log/update" "asking the package index for kernel $1" root_run apt-get update
	exec {lock}>&-
}

# offered SERIES: the releases of kernels of a series, or of all, in the package index, the
# newest last.
offered() {
	root_run apt-cache search --names-only "^linux-headers-${1:-[0-9]+\\.[0-9]+}\\.[0-9]+\\+deb[0-9]+-amd64\$" |
		sed 's/^linux-headers-\([^ ]*\) .*/\1/' | sort -V
}

# no_kernel WHAT: ends the tool, and says which kernels there are.
no_kernel() {
	local found
	found=$(offered | awk -F . -v oldest="$OLDEST_SERIES" '
		{ split(oldest, least) } $1 > least[1] || ($1 == least[1] && $2 >= least[2]) { printf " %s", $1 "." $2 "." $3 }')
	[ -n "$found" ] || die "Debian's $SUITE-backports has no kernel $1, nor another one from $OLDEST_SERIES on" \
		"see whether SIB_MIRROR names a whole mirror"
	die "Debian's $SUITE-backports has no kernel $1" \
		"name a series or release that it has, as in make run SIB_KERNEL=${found##* }:$found"
}

# kernel_release: the kernel, as `uname -r` has it: the one asked for, or the
# newest of SERIES. The package index is asked for that once, and again after
# `make update`.
kernel_release() {
	local file=$CACHE/release-$SUITE-$SERIES found
	# The index has those of Debian itself, too, which are older.
	[[ ! $SERIES =~ ^[0-9]+\.[0-9]+$ ]] || printf '%s\n' "$OLDEST_SERIES" "$SERIES" | sort -C -V ||
		die "kernel $RELEASE is too old: the modules need one of $OLDEST_SERIES or later" \
			"boot one of $SUITE-backports, see README.md; or leave SIB_KERNEL alone, for virtual machines"
	if [ "$RELEASE" != "$SERIES" ]; then
		echo "$RELEASE"
		return
	fi
	if [ ! -s "$file" ]; then
		ask_index "$SERIES"
		found=$(offered "${SERIES/./\\.}" | tail -n 1)
		[ -n "$found" ] || no_kernel "$SERIES"
		echo "$found" >"$file"
	fi
	cat "$file"
}

# make_packages SCRATCH RELEASE: the unpacked kernel packages of Debian and
# the source that they were built from.
make_packages() {
	# shellcheck disable=SC2016 # the script is for the inner shell
	ROOT_BINDS="$1:/kernel/new" quietly "$CACHE/log/kernel-packages" "fetching the packages of kernel $2" \
		root_run sh -ec '
			cd /kernel/new
			release=$1 series=$2
			version=$(apt-cache show "linux-headers-$release" | sed -n "s/^Version: //p" | head -n 1)
			known() {
				apt-cache show "$1" >/dev/null 2>&1
			}
			# A kernel is one package or several, by the version of the packaging.
			# The signed ones come some days after the others.
			parts=
			for part in base modules binary image; do
				! known "linux-$part-$release" || parts="$parts linux-$part-$release"
			done
			case $parts in
			*-binary-* | *-image-*) ;;
			*) for part in "binary-unsigned-$release" "image-$release-unsigned"; do
				! known "linux-$part" || parts="$parts linux-$part"
			done ;;
			esac
			apt-get -o APT::Sandbox::User=root download $parts \
				"linux-headers-$release=$version" "linux-source-$series=$version"
			for deb in *.deb; do
				dpkg-deb -x "$deb" .
				rm "$deb"
			done
			mkdir source
			tar -C source --strip-components=1 -xf usr/src/linux-source-*.tar.xz
			rm usr/src/linux-source-*.tar.xz
		' sh "$2" "$SERIES"
}

# known RELEASE: whether the package index has that kernel.
known() {
	root_run apt-cache show "linux-headers-$1" >/dev/null 2>&1
}

# fetch_packages SCRATCH RELEASE: make_packages, by the index of today: an older one may name
# what the mirror does not have any more.
fetch_packages() {
	ask_index "$2"
	known "$2" || {
		rmdir "$1"
		no_kernel "$2"
	}
	make_packages "$@"
}

kernel_packages() {
	local release dir
	release=$(kernel_release)
	dir=$CACHE/kernel-$release-$(hash_of "$(declare -f make_packages)")
	once "$dir" fetch_packages "$release"
	echo "$dir"
}

# The stock kernel's own compiler: gcc-14, called as Debian calls it.
STOCK_MAKE="make CC=x86_64-linux-gnu-gcc-14 HOSTCC=gcc-14"
DEBUG_MAKE="make LLVM=1"

# make_stock SCRATCH RELEASE PACKAGES: what Debian's headers lack for a Rust
# module: the metadata of the Rust crates, made from the same source, by the
# same compilers and the same config, so that the symbol names agree.
make_stock() {
	# shellcheck disable=SC2016 # the script is for the inner shell
	ROOT_BINDS="$3/source:/kernel/source $1:/kernel/stock $3:/kernel/packages" \
		quietly "$CACHE/log/stock" "making the module build folder of kernel $2 (2 minutes)" \
		root_run sh -ec '
			release=$1; shift
			cd /kernel/source
			cp "/kernel/packages/usr/lib/modules/$release/config" /kernel/stock/.config
			set -- "$@" O=/kernel/stock "LOCALVERSION=+${release#*+}"
			"$@" olddefconfig
			"$@" prepare modules_prepare
			cp "/kernel/packages/usr/src/linux-headers-$release/Module.symvers" /kernel/stock/
			built=$(cat /kernel/stock/include/config/kernel.release)
			[ "$built" = "$release" ] || { echo "the source is $built, the kernel $release"; exit 1; }
			for symbol in $(cut -f 2 /kernel/stock/Module.symvers | grep "^_R"); do
				echo "$symbol"
			done | sort >/tmp/wanted
			grep -ho "_R[A-Za-z0-9_]*" /kernel/stock/rust/exports_*_generated.h | sort -u >/tmp/have
			comm -23 /tmp/wanted /tmp/have >/tmp/missing
			if [ -s /tmp/missing ]; then
				echo "Rust symbols of the stock kernel that this build lacks:"
				head /tmp/missing
				exit 1
			fi
		' sh "$2" $STOCK_MAKE "-j$JOBS"
}

stock_kdir() {
	local release packages dir
	release=$(kernel_release)
	packages=$(kernel_packages)
	dir=$CACHE/stock-$release-$(hash_of "$(basename "$packages")" "$(packages "$TREE/tools/root/compile.packages")" "$STOCK_MAKE" "$(declare -f make_stock)")
	once "$dir" make_stock "$release" "$packages"
	echo "$dir"
}

# make_debug SCRATCH RELEASE PACKAGES: the kernel that looks for bugs.
make_debug() {
	# shellcheck disable=SC2016 # the script is for the inner shell
	ROOT_BINDS="$3/source:/kernel/source $1:/kernel/debug" \
		quietly "$CACHE/log/debug" "building the debug kernel from the source of $2 (10 to 15 minutes)" \
		root_run sh -ec '
			cd /kernel/source
			set -- "$@" O=/kernel/debug LOCALVERSION=-sib-debug
			KCONFIG_ALLCONFIG=/src/tools/kernel/debug.config "$@" allnoconfig
			for option in $(grep -v "^#" /src/tools/kernel/debug.config); do
				grep -qx "$option" /kernel/debug/.config || lost="$lost $option"
			done
			[ -z "$lost" ] || { echo "debug.config asks for what this kernel cannot have:$lost"; exit 1; }
			"$@" bzImage modules
			"$@" INSTALL_MOD_PATH=/kernel/debug/image DEPMOD=true modules_install
		' sh $DEBUG_MAKE "-j$JOBS"
}

debug_kdir() {
	local release packages dir
	release=$(kernel_release)
	packages=$(kernel_packages)
	dir=$CACHE/debug-$release-$(hash_of "$(basename "$packages")" "$(packages "$TREE/tools/root/compile.packages")" "$TREE/tools/kernel/debug.config" \
		"$DEBUG_MAKE" "$(declare -f make_debug)")
	once "$dir" make_debug "$release" "$packages"
	echo "$dir"
}

# kernel_run FLAVOUR COMMAND...: in the build root, with the source and the
# build folder of the stock or the debug kernel in place.
kernel_run() {
	local flavour=$1 packages kdir
	shift
	packages=$(kernel_packages)
	kdir=$("${flavour}_kdir")
	ROOT_BINDS="$packages/source:/kernel/source $kdir:/kernel/$flavour ${ROOT_BINDS:-}" root_run "$@"
}
