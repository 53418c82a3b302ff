#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The guest's part of tools/profile: messages of one kind between two HCAs, and
# the names of the kernel's functions.
#
#     guest.sh handoff|udp KIND SIZE MESSAGES

. /src/tests/vm/lib.sh
. /src/tests/vm/user.sh

set -o pipefail
datapath "$1"
fabric_up
cat /proc/kallsyms >/share/kallsyms
user cost -a sib0 -b sib1 -k "$2" -s "$3" -n "$4" | tee /share/cost
