/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The tracepoints of the driver, in the group "sib". They are called by the functions of trace.c alone.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM sib

#if !defined(SIB_HELPERS_SIB_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SIB_HELPERS_SIB_TRACE_H

#include <linux/tracepoint.h>

int sib_trace_reg(void);
void sib_trace_unreg(void);

#define sib_show_cause(cause)                     \
	__print_symbolic(cause,                   \
			 { 0, "timeout" },        \
			 { 1, "reminder" },       \
			 { 2, "sequence_nak" },   \
			 { 3, "implied_nak" },    \
			 { 4, "rnr_nak" })

#define sib_show_error(error)                     \
	__print_symbolic(error,                   \
			 { 0, "fatal" },          \
			 { 1, "request" },        \
			 { 2, "access" },         \
			 { 3, "send_queue" })

/* A work request was taken from a send queue's client. */
TRACE_EVENT_FN(sib_post,
	TP_PROTO(u32 qpn, u64 wr_id, u32 length),
	TP_ARGS(qpn, wr_id, length),
	TP_STRUCT__entry(
		__field(u64, wr_id)
		__field(u32, qpn)
		__field(u32, length)
	),
	TP_fast_assign(
		__entry->wr_id = wr_id;
		__entry->qpn = qpn;
		__entry->length = length;
	),
	TP_printk("qpn=%#x wr_id=%#llx length=%u", __entry->qpn, __entry->wr_id, __entry->length),
	sib_trace_reg, sib_trace_unreg
);

/* Packets of one segment, at a port. */
DECLARE_EVENT_CLASS(sib_packets,
	TP_PROTO(u32 lids, u32 opcode, u32 dest_qp, u32 psn, u32 span, u32 length),
	TP_ARGS(lids, opcode, dest_qp, psn, span, length),
	TP_STRUCT__entry(
		__field(u32, lids)
		__field(u32, opcode)
		__field(u32, dest_qp)
		__field(u32, psn)
		__field(u32, span)
		__field(u32, length)
	),
	TP_fast_assign(
		__entry->lids = lids;
		__entry->opcode = opcode;
		__entry->dest_qp = dest_qp;
		__entry->psn = psn;
		__entry->span = span;
		__entry->length = length;
	),
	TP_printk("slid=%u dlid=%u opcode=%#04x dest_qp=%#x psn=%#x packets=%u length=%u",
		  __entry->lids >> 16, __entry->lids & 0xffff, __entry->opcode,
		  __entry->dest_qp, __entry->psn, __entry->span, __entry->length)
);

DEFINE_EVENT_FN(sib_packets, sib_transmit,
	TP_PROTO(u32 lids, u32 opcode, u32 dest_qp, u32 psn, u32 span, u32 length),
	TP_ARGS(lids, opcode, dest_qp, psn, span, length),
	sib_trace_reg, sib_trace_unreg
);

DEFINE_EVENT_FN(sib_packets, sib_receive,
	TP_PROTO(u32 lids, u32 opcode, u32 dest_qp, u32 psn, u32 span, u32 length),
	TP_ARGS(lids, opcode, dest_qp, psn, span, length),
	sib_trace_reg, sib_trace_unreg
);

/* A completion; its status is an ib_wc_status. */
TRACE_EVENT_FN(sib_complete,
	TP_PROTO(u32 qpn, u64 wr_id, u32 status, bool recv),
	TP_ARGS(qpn, wr_id, status, recv),
	TP_STRUCT__entry(
		__field(u64, wr_id)
		__field(u32, qpn)
		__field(u32, status)
		__field(bool, recv)
	),
	TP_fast_assign(
		__entry->wr_id = wr_id;
		__entry->qpn = qpn;
		__entry->status = status;
		__entry->recv = recv;
	),
	TP_printk("qpn=%#x wr_id=%#llx queue=%s status=%u", __entry->qpn, __entry->wr_id,
		  __entry->recv ? "recv" : "send", __entry->status),
	sib_trace_reg, sib_trace_unreg
);

/* Something is about to be sent again. */
TRACE_EVENT_FN(sib_retry,
	TP_PROTO(u32 qpn, u32 cause),
	TP_ARGS(qpn, cause),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, cause)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->cause = cause;
	),
	TP_printk("qpn=%#x cause=%s", __entry->qpn, sib_show_cause(__entry->cause)),
	sib_trace_reg, sib_trace_unreg
);

/* A queue pair has found an error. */
TRACE_EVENT_FN(sib_error,
	TP_PROTO(u32 qpn, u32 error, u32 status),
	TP_ARGS(qpn, error, status),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, error)
		__field(u32, status)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->error = error;
		__entry->status = status;
	),
	TP_printk("qpn=%#x error=%s status=%u", __entry->qpn, sib_show_error(__entry->error),
		  __entry->status),
	sib_trace_reg, sib_trace_unreg
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE sib_trace
#include <trace/define_trace.h>
