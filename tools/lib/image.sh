# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What a guest boots from, in parts that change at different paces: the Debian
# root (a squashfs for each set of packages), the kernel with its modules (and an
# initramfs), and the project's own modules with scripts (a folder for each build).
# Sourced after kernel.sh.

# make_guest SCRATCH PACKAGE...: the root file system. Its data is not
# compressed, since an emulated processor would pay for it at every boot.
make_guest() {
	local scratch=$1
	shift
	mkdir "$scratch/root"
	make_root "$scratch/root" guest "$@"
	rm -rf "$scratch/root/var/lib/apt/lists" "$scratch/root/var/cache/apt"
	ROOT_BINDS="$scratch:/guest" quietly "$CACHE/log/squashfs" "packing the guest image" \
		root_run mksquashfs /guest/root /guest/root.squashfs \
		-comp zstd -noI -noD -noF -noX -no-progress -no-recovery
	rm -rf --one-file-system "$scratch/root"
}

# guest_image PACKAGE...: the image with these packages beside the usual ones.
guest_image() {
	local list=$TREE/tools/root/guest.packages dir
	local -a names
	mapfile -t names < <({ packages "$list" && printf '%s\n' "$@"; } | grep . | sort -u)
	dir=$CACHE/guest-$(hash_of "$SUITE" "${names[@]}" "$(declare -f make_base make_root make_guest)")
	once "$dir" make_guest "${names[@]}"
	echo "$dir"
}

# make_siw SCRATCH RELEASE: siw.ko for the stock kernel, which Debian leaves out.
make_siw() {
	# shellcheck disable=SC2046,SC2086 # several words
	ROOT_BINDS="$1:/siw" quietly "$CACHE/log/siw" "building siw for the stock kernel" \
		kernel_run stock $STOCK_MAKE "-j$JOBS" "LOCALVERSION=+${2#*+}" -C /kernel/stock \
		M=/kernel/source/drivers/infiniband/sw/siw MO=/siw CONFIG_RDMA_SIW=m modules
}

siw_module() {
	local release dir
	release=$(kernel_release)
	dir=$CACHE/siw-$release-$(hash_of "$(basename "$(stock_kdir)")" "$(declare -f make_siw)")
	once "$dir" make_siw "$release"
	echo "$dir"
}

# make_boot SCRATCH FLAVOUR RELEASE MODULES VMLINUZ EXTRA: kernel, module disk
# and initramfs. Modules of hardware that QEMU lacks are left out, the rest is
# stored uncompressed.
make_boot() {
	# shellcheck disable=SC2016 # the script is for the inner shell
	ROOT_BINDS="$1:/boot/new $4:/boot/modules $6:/boot/extra $(dirname "$5"):/boot/kernel" \
		quietly "$CACHE/log/boot-$2" "packing the $2 kernel and its modules" \
		root_run sh -ec '
			release=$1 vmlinuz=$2
			cd /boot/new
			cp "/boot/kernel/$vmlinuz" vmlinuz
			to=tree/usr/lib/modules/$release
			mkdir -p "$to/updates"
			rsync -a --exclude-from=/src/tools/guest/modules.exclude \
				/boot/modules/kernel /boot/modules/modules.order /boot/modules/modules.builtin* "$to/"
			find /boot/extra -maxdepth 1 -name "*.ko" -exec cp {} "$to/updates/" \;
			find "$to" -name "*.ko.xz" -exec xz -d {} +
			ln -s usr/lib tree/lib
			depmod -b tree "$release"
			mksquashfs tree modules.squashfs -comp zstd -noI -noD -noF -noX -no-progress -no-recovery

			mkdir -p initramfs/boot initramfs/bin
			cp /bin/busybox initramfs/bin/
			for module in virtio_blk squashfs overlay 9pnet_virtio 9p virtio_net configfs; do
				modprobe -d tree -S "$release" --show-depends "$module"
			done | sed -n "s/^insmod \([^ ]*\).*/\1/p" | awk "!seen[\$0]++" >order
			: >initramfs/boot/order
			while read -r module; do
				cp "$module" initramfs/boot/
				basename "$module" >>initramfs/boot/order
			done <order
			(cd initramfs && find . | cpio --quiet -o -H newc) >initramfs.cpio
			rm -r initramfs order
		' sh "$3" "$(basename "$5")"
}

# boot_image FLAVOUR: vmlinuz, modules.squashfs, initramfs.cpio and tree/.
boot_image() {
	local flavour=$1 release kdir extra dir modules vmlinuz
	local recipe
	recipe=$(hash_of "$TREE/tools/guest/modules.exclude" "$(declare -f make_boot)")
	if [ "$flavour" = stock ]; then
		release=$(kernel_release)
		kdir=$(kernel_packages)
		extra=$(siw_module)
		modules=$kdir/usr/lib/modules/$release
		# Where the image is depends on the version of the packaging.
		for vmlinuz in "$modules/vmlinuz" "$modules/vmlinuz.unsigned" "$kdir/boot/vmlinuz-$release"; do
			[ ! -f "$vmlinuz" ] || break
		done
	else
		kdir=$(debug_kdir)
		release=$(cat "$kdir/include/config/kernel.release")
		extra=$kdir/image
		modules=$kdir/image/lib/modules/$release
		vmlinuz=$kdir/arch/x86/boot/bzImage
	fi
	dir=$CACHE/boot-$release-$(hash_of "$(basename "$kdir")" "$(basename "$extra")" "$recipe")
	once "$dir" make_boot "$flavour" "$release" "$modules" "$vmlinuz" "$extra"
	echo "$dir"
}

# pack_project FLAVOUR BOOT-IMAGE: build/FLAVOUR/project, what the guest adds to its
# root: the project's modules, the files that make modprobe find them, and the
# scripts of tools/guest; and build/FLAVOUR/initramfs, with the first of those.
pack_project() {
	# shellcheck disable=SC2016 # the script is for the inner shell
	ROOT_BINDS="$2:/boot/image" root_run sh -ec '
		built=/src/build/$1
		release=$(ls /boot/image/tree/usr/lib/modules)
		work=$(mktemp -d)
		project=$built/project.new
		rm -rf "$project"
		modules=usr/lib/modules/$release
		mkdir -p "$work/all" "$project/$modules/updates" "$project/usr/lib/sib" "$project/usr/bin" "$work/cpio"
		sed "s/\.o$/.ko/" "$built/modules.order" | while read -r module; do
			strip --strip-debug -o "$project/$modules/updates/$(basename "$module")" "$built/$module"
		done

		# depmod wants to see all modules together; links to them will do.
		cp -as /boot/image/tree/usr "$work/all/"
		ln -s usr/lib "$work/all/lib"
		rm -f "$work/all/$modules"/modules.*
		cp "/boot/image/tree/$modules/modules.order" "/boot/image/tree/$modules"/modules.builtin* "$work/all/$modules/"
		cp "$project/$modules/updates"/*.ko "$work/all/$modules/updates/"
		depmod -b "$work/all" "$release"
		find "$work/all/$modules" -maxdepth 1 -name "modules.*" -type f -exec cp {} "$project/$modules/" \;

		install -m 755 /src/tools/guest/init "$work/cpio/"
		install -m 755 /src/tools/guest/run /src/tools/guest/kmemleak "$project/usr/lib/sib/"
		install -m 755 /src/tools/guest/vm-barrier "$project/usr/bin/"
		(cd "$work/cpio" && find . | cpio --quiet -o -H newc) >"$work/new"
		cat /boot/image/initramfs.cpio "$work/new" >"$built/initramfs.new"
		mv "$built/initramfs.new" "$built/initramfs"
		rm -rf "$built/project"
		mv "$project" "$built/project"
	' sh "$1"
}

# project_image FLAVOUR BOOT-IMAGE RUN: builds and packs what has changed, and copies it to
# the folder RUN, so that it stays as it is.
project_image() {
	local flavour=$1 boot=$2 run=$3 key lock out=$TREE/build/$1
	mkdir -p "$TREE/build"
	exec {lock}>"$TREE/build/$flavour.image.lock"
	flock "$lock"
	key=$(cd "$TREE" && {
		find Kbuild rust include tools/guest tools/module -type f -printf '%p %T@ %s\n' 2>/dev/null | sort || true
		basename "$boot"
	} | sha256sum)
	if [ ! -f "$out/initramfs" ] || [ "$key" != "$(cat "$out/initramfs.key" 2>/dev/null)" ]; then
		quietly "$TREE/build/$flavour.log" "building the modules for the $flavour kernel" \
			"$TREE/tools/module" "$flavour"
		pack_project "$flavour" "$boot"
		echo "$key" >"$out/initramfs.key"
	fi
	cp -r "$out/initramfs" "$out/project" "$run/"
	exec {lock}>&-
}
