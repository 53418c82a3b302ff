#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: --kernel stock --timeout 600
#
# Nothing is allocated per packet by a connection that is established: of all
# allocations of the kernel while it carries messages, none has a function of the
# module among its callers. Over UDP those of the network layer have, which makes a
# datagram of each packet or of several.
#
# Management allocates for what it sends, and is left out.
#
#     steady.sh [MESSAGES [MESSAGES-OVER-UDP]]

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/user.sh"

TRACE=/sys/kernel/tracing

# What makes datagrams.
DATAGRAMS='alloc_skb|build_skb|page_pool_|skb_clone|skb_segment|skb_copy|pskb_expand_head|napi_skb_cache'

# allocations PART: the allocations with a caller in the module, before or while the
# connection is steady, each with its callers in one line.
allocations() {
	awk -v part="$1" '
	function flush() {
		if (stack != "" && ours && !management && now == part)
			print stack
		stack = ""
		ours = management = interrupted = 0
	}
	FILENAME == "/proc/kallsyms" { if ($4 == "[sib]") module[$3]; next }
	/^ => / {
		stack = stack " < " $2
		# Whom an interrupt met has not called it.
		if ($2 ~ /^asm_|^handle_softirqs$/)
			interrupted = 1
		if ($2 in module && !interrupted)
			ours = 1
		if ($2 ~ /^ib_u?mad_/)
			management = 1
		next
	}
	{ flush(); match($0, /\[[0-9]+\]/); cpu = substr($0, RSTART, RLENGTH) }
	/steady begins/ { now = "steady"; next }
	/steady ends/ { now = "after"; next }
	/: (kmalloc|kmem_cache_alloc|mm_page_alloc|percpu_alloc_percpu): / { event[cpu] = $0; next }
	/<stack trace>/ { stack = event[cpu]; delete event[cpu]; next }
	BEGIN { now = "before" }
	END { flush() }' /proc/kallsyms /tmp/trace
}

# traced MESSAGES: records all allocations of the kernel while a connection is made and
# used.
traced() {
	local cpu messages=$1
	echo >$TRACE/trace
	echo 1 >$TRACE/tracing_on
	run user steady -n "$messages"
	echo 0 >$TRACE/tracing_on
	for cpu in $TRACE/per_cpu/cpu*; do
		grep -q '^overrun: 0$' "$cpu/stats" && grep -q '^dropped events: 0$' "$cpu/stats" ||
			fail "the trace has holes: $(cat "$cpu/stats")"
	done
	cp $TRACE/trace /tmp/trace
	[ "$(grep -c 'steady \(begins\|ends\)' /tmp/trace)" = 2 ] || fail "no marks in the trace"
	allocations before >/tmp/before
	allocations steady >/tmp/steady
	printf 'allocations by the module: %d before, %d in %d messages\n' \
		"$(wc -l </tmp/before)" "$(wc -l </tmp/steady)" "$messages"
	[ -s /tmp/before ] || fail "a connection was made of nothing: the trace does not see it"
}

mountpoint -q $TRACE || run mount -t tracefs none $TRACE
echo 0 >$TRACE/tracing_on
echo 65536 >$TRACE/buffer_size_kb
echo 1 >$TRACE/options/stacktrace
for event in kmem/kmalloc kmem/kmem_cache_alloc kmem/mm_page_alloc percpu/percpu_alloc_percpu; do
	echo 1 >$TRACE/events/$event/enable || fail "no event $event"
done

step "By hand-off"
datapath handoff
fabric_up
opensm_down
traced "${1:-10000}"
[ ! -s /tmp/steady ] || {
	head -n 3 /tmp/steady
	fail "something was allocated for messages"
}
fabric_down

step "Over UDP"
datapath udp
fabric_up
opensm_down
traced "${2:-500}"
[ -s /tmp/steady ] || fail "datagrams were made of nothing: the trace does not see them"
# Now and then the network layer looks for its way anew.
grep -Ev "$DATAGRAMS" /tmp/steady >/tmp/else
[ "$(wc -l </tmp/else)" -lt $((${2:-500} / 10)) ] || {
	head -n 3 /tmp/else
	fail "something else than datagrams is allocated for messages"
}
fabric_down
for event in kmem percpu; do
	echo 0 >$TRACE/events/$event/enable
done
echo 0 >$TRACE/options/stacktrace
