// SPDX-License-Identifier: GPL-2.0

#include <linux/hmm.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/uaccess.h>
#include <rdma/ib_umem_odp.h>

#include "odp.h"

struct ib_umem_odp *
sib_helper_odp_get(struct ib_device *device, unsigned long addr, size_t size,
		   int access, const struct mmu_interval_notifier_ops *ops)
{
	return ib_umem_odp_get(device, addr, size, access, ops);
}

void sib_helper_odp_release(struct ib_umem_odp *odp)
{
	ib_umem_odp_release(odp);
}

unsigned int sib_helper_odp_page_shift(struct ib_umem_odp *odp)
{
	return odp->page_shift;
}

unsigned long sib_helper_odp_start(struct ib_umem_odp *odp)
{
	return ib_umem_start(odp);
}

unsigned long sib_helper_odp_end(struct ib_umem_odp *odp)
{
	return ib_umem_end(odp);
}

bool sib_helper_odp_writable(struct ib_umem_odp *odp)
{
	return odp->umem.writable;
}

void sib_helper_odp_lock(struct ib_umem_odp *odp)
{
	mutex_lock(&odp->umem_mutex);
}

void sib_helper_odp_unlock(struct ib_umem_odp *odp)
{
	mutex_unlock(&odp->umem_mutex);
}

void *sib_helper_odp_private(struct ib_umem_odp *odp)
{
	return odp->private;
}

void sib_helper_odp_set_private(struct ib_umem_odp *odp, void *private)
{
	odp->private = private;
}

int sib_helper_odp_map_and_lock(struct ib_umem_odp *odp, u64 va, u64 len,
				bool write, bool fault)
{
#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
	return ib_umem_odp_map_dma_and_lock(odp, va, len,
					    write ? HMM_PFN_WRITE : 0, fault);
#else
	return -EOPNOTSUPP;
#endif
}

/*
 * The kernel address of a page; NULL if it is not mapped, or has none: that of memfd_secret() is the user's alone. The
 * mutex is locked.
 */
void *sib_helper_odp_page(struct ib_umem_odp *odp, size_t index,
			  bool *writable)
{
	unsigned long pfn =
		odp->map.pfn_list[index << (odp->page_shift - PAGE_SHIFT)];
	void *address;
	u8 byte;

	if (!(pfn & HMM_PFN_VALID))
		return NULL;
	address = page_address(hmm_pfn_to_page(pfn));
	if (copy_from_kernel_nofault(&byte, address, sizeof(byte)))
		return NULL;
	*writable = pfn & HMM_PFN_WRITE;
	return address;
}

void sib_helper_odp_dirty(void *page)
{
	set_page_dirty(compound_head(virt_to_page(page)));
}

void sib_helper_odp_unmap(struct ib_umem_odp *odp, u64 start, u64 end)
{
#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
	ib_umem_odp_unmap_dma_pages(odp, start, end);
#endif
}

struct ib_umem_odp *sib_helper_odp_of(struct mmu_interval_notifier *notifier)
{
	return container_of(notifier, struct ib_umem_odp, notifier);
}

void sib_helper_mmu_interval_set_seq(struct mmu_interval_notifier *notifier,
				     unsigned long seq)
{
	mmu_interval_set_seq(notifier, seq);
}

bool sib_helper_mmu_range_blockable(const struct mmu_notifier_range *range)
{
	return mmu_notifier_range_blockable(range);
}
