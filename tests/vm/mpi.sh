#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 900 --package ucx-utils --package netpipe-openmpi --package python3-mpi4py -- udp
# vm-long: --kernel stock --timeout 900 --package ucx-utils --package netpipe-openmpi --package python3-mpi4py -- handoff
# vm-long: --kernel debug --timeout 1800 --package ucx-utils --package netpipe-openmpi --package python3-mpi4py -- handoff
#
# UCX and Open MPI, by reliable connections and by datagrams: the operations of UCX, the integrity
# check of NetPIPE, and four ranks that check what they have from each other.
#
#     mpi.sh [handoff|udp]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

# Ranks of even numbers are at sib0, the others at sib1.
RANK=/tmp/rank
cat >$RANK <<'END'
#!/bin/sh
export UCX_NET_DEVICES=sib$((OMPI_COMM_WORLD_RANK % 2)):1
exec "$@"
END
chmod +x $RANK

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Open MPI has windows by UCX on devices that it knows by name (mlx5), and by something else on others.
export OMPI_MCA_osc=ucx
# Otherwise UCX asks for a flush at the far side, which it has for mlx5 alone, and complains of that.
export UCX_FENCE_MODE=weak

# ranks COUNT PML COMMAND [ARG]...: runs COMMAND in so many processes, whose MPI uses that layer, and adds what the
# ports have sent meanwhile to SENT.
ranks() {
	local count=$1 pml=$2 before
	shift 2
	before=$(packets)
	OMPI_MCA_pml=$pml timeout -k 10 300 mpirun -np "$count" --oversubscribe $RANK "$@" >/tmp/ranks 2>&1 ||
		fail "status $? of $*: $(tail -n 20 /tmp/ranks)"
	SENT=$(($(packets) - before))
}

packets() {
	cat /sys/class/infiniband/sib[01]/ports/1/counters/port_xmit_packets | awk '{ sum += $1 } END { print sum }'
}

datapath "${1:-handoff}"
fabric_up
ulimit -l unlimited

# Connections are made by datagrams.
for way in rc_verbs,ud_verbs:aux ud_verbs; do
	export UCX_TLS=$way,self
	step "UCX: ${way%%,*}"
	operations="tag_lat tag_bw tag_sync_bw stream_lat stream_bw ucp_am_bw ucp_put_lat ucp_put_bw ucp_get ucp_add
		ucp_fadd ucp_swap ucp_cswap"
	# By datagrams UCX makes all others of messages.
	[ $way != ud_verbs ] || operations="tag_lat tag_bw stream_bw ucp_am_bw ucp_get ucp_cswap"
	# What ranks of ucx_perftest tell each other goes by TCP.
	for test in $operations; do
		size=65536
		case $test in
		*add | *swap) size=8 ;;
		esac
		ranks 2 ob1 ucx_perftest -t $test -s $size -n 500
		printf '%-14s %7d packets, %s MiB/s\n' $test "$SENT" "$(awk '/^Final/ { print $7 }' /tmp/ranks)"
		[ "$SENT" -ge 500 ] || fail "it went another way"
	done
	step "Open MPI, NetPIPE: ${way%%,*}"
	ranks 2 ucx NPopenmpi -i -u 1000000
	passed=$(grep -c "Integrity check passed" /tmp/ranks)
	printf '%d sizes, %d packets\n' "$passed" "$SENT"
	# The slower the kernel, the fewer messages of each size: three of each, both ways, are 4000 packets.
	if [ "$passed" -lt 30 ] || [ "$SENT" -lt 4000 ]; then
		fail "$(cat /tmp/ranks)"
	fi
	step "Open MPI, four ranks: ${way%%,*}"
	ranks 4 ucx python3 "$(dirname "$0")/mpi/ranks.py"
	cat /tmp/ranks
	printf '%d packets\n' "$SENT"
	[ "$SENT" -ge 5000 ] || fail "they went another way"
done
no_objects
# UCX looks for it.
modprobe -r rdma_ucm
fabric_down
