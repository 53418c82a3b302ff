// SPDX-License-Identifier: GPL-2.0
/* Why a connection is refused, in words: IBA "Rejection Reason". */

#include "sibcm.h"

static const char *const REASONS[] = {
	[1] = "no queue pair is to be had",
	[2] = "no end-to-end context is to be had",
	[3] = "a resource is not to be had",
	[4] = "an answer has not come in time",
	[5] = "the request is not supported",
	[6] = "a communication ID is not known",
	[7] = "the communication IDs do not belong together",
	[8] = "there is no such service",
	[9] = "the service is not there with this transport",
	[10] = "the connection is stale",
	[11] = "there is no such channel of reliable datagrams",
	[12] = "the GID of the primary path will not do",
	[13] = "the LID of the primary path will not do",
	[14] = "the service level of the primary path will not do",
	[15] = "the traffic class of the primary path will not do",
	[16] = "the hop limit of the primary path will not do",
	[17] = "the rate of the primary path will not do",
	[18] = "the GID of the alternate path will not do",
	[19] = "the LID of the alternate path will not do",
	[20] = "the service level of the alternate path will not do",
	[21] = "the traffic class of the alternate path will not do",
	[22] = "the hop limit of the alternate path will not do",
	[23] = "the rate of the alternate path will not do",
	[24] = "another port and queue pair are to be asked",
	[25] = "another port is to be asked",
	[26] = "the MTU will not do",
	[27] = "there are too few responder resources",
	[28] = "the peer does not want it",
	[29] = "the number of tries after an RNR NAK will not do",
	[30] = "another connection has the communication ID",
	[31] = "the class version is not supported",
	[32] = "the flow label of the primary path will not do",
	[33] = "the flow label of the alternate path will not do",
	[35] = "a vendor's enhancement is not supported",
};

const char *reason_text(uint32_t reason)
{
	const size_t count = sizeof(REASONS) / sizeof(REASONS[0]);
	const char *text = reason < count ? REASONS[reason] : NULL;

	return text ? text : "unknown";
}
