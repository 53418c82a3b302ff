// SPDX-License-Identifier: GPL-2.0

#include <linux/compiler.h>

#define CREATE_TRACE_POINTS
#include "sib_trace.h"
#include "trace.h"

unsigned int sib_helper_trace_listeners;

/* Both are called with the mutex of all tracepoints held. */
int sib_trace_reg(void)
{
	WRITE_ONCE(sib_helper_trace_listeners, sib_helper_trace_listeners + 1);
	return 0;
}

void sib_trace_unreg(void)
{
	WRITE_ONCE(sib_helper_trace_listeners, sib_helper_trace_listeners - 1);
}

void sib_helper_trace_post(u32 qpn, u64 wr_id, u32 length)
{
	trace_sib_post(qpn, wr_id, length);
}

void sib_helper_trace_transmit(u32 lids, u32 opcode, u32 dest_qp, u32 psn, u32 span, u32 length)
{
	trace_sib_transmit(lids, opcode, dest_qp, psn, span, length);
}

void sib_helper_trace_receive(u32 lids, u32 opcode, u32 dest_qp, u32 psn, u32 span, u32 length)
{
	trace_sib_receive(lids, opcode, dest_qp, psn, span, length);
}

void sib_helper_trace_complete(u32 qpn, u64 wr_id, u32 status, bool recv)
{
	trace_sib_complete(qpn, wr_id, status, recv);
}

void sib_helper_trace_retry(u32 qpn, u32 cause)
{
	trace_sib_retry(qpn, cause);
}

void sib_helper_trace_error(u32 qpn, u32 error, u32 status)
{
	trace_sib_error(qpn, error, status);
}
