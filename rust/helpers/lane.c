// SPDX-License-Identifier: GPL-2.0

#include <linux/skbuff.h>

#include "net.h"

void sib_helper_lane_init(struct sk_buff_head *lane)
{
	skb_queue_head_init(lane);
}

/* The path is given back with the packet. */
void sib_helper_lane_put(struct sk_buff_head *lane, struct sk_buff *skb,
			 const void *path)
{
	*(const void **)skb->cb = path;
	skb_queue_tail(lane, skb);
}

struct sk_buff *sib_helper_lane_take(struct sk_buff_head *lane,
				     const void **path)
{
	struct sk_buff *skb = skb_dequeue(lane);

	if (!skb)
		return NULL;
	*path = *(const void **)skb->cb;
	/* The layers below expect it as they have made it. */
	memset(skb->cb, 0, sizeof(skb->cb));
	return skb;
}
