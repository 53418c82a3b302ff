/* SPDX-License-Identifier: GPL-2.0 */
/* What bindgen reads: the headers whose items the kernel crate does not bind, and the shims. */
#include <linux/crc32.h>
#include <linux/hrtimer.h>
#include <linux/inetdevice.h>
#include <linux/mm.h>
#include <linux/netdevice.h>
#include <linux/notifier.h>
#include <linux/skbuff.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <net/dst_cache.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_pma.h>
#include <rdma/ib_sa.h>
#include <rdma/ib_smi.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>
#include <rdma/rdma_user_rxe.h>
#include <rdma/uverbs_ioctl.h>

#include "helpers.h"
