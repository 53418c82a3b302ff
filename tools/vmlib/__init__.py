# SPDX-License-Identifier: GPL-2.0
"""The running part of tools/vm: QEMU processes, their output, their logs.

It runs inside the build root, where everything has a fixed place: /src is the
tree, /cache the cache, /guest and /boot/image what to boot from, /run/vm the
folder of this run, and /share what --share named.
"""
