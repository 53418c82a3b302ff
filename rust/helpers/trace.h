/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SIB_HELPERS_TRACE_H
#define SIB_HELPERS_TRACE_H

#include <linux/types.h>

/* How many listeners the tracepoints of sib_trace.h have together. Changed by whole words. */
extern unsigned int sib_helper_trace_listeners;

void sib_helper_trace_post(u32 qpn, u64 wr_id, u32 length);
void sib_helper_trace_transmit(u32 lids, u32 opcode, u32 dest_qp, u32 psn, u32 span, u32 length);
void sib_helper_trace_receive(u32 lids, u32 opcode, u32 dest_qp, u32 psn, u32 span, u32 length);
void sib_helper_trace_complete(u32 qpn, u64 wr_id, u32 status, bool recv);
void sib_helper_trace_retry(u32 qpn, u32 cause);
void sib_helper_trace_error(u32 qpn, u32 error, u32 status);

#endif
