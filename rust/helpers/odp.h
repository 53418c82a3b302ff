/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SIB_HELPERS_ODP_H
#define SIB_HELPERS_ODP_H

#include <linux/types.h>

struct ib_device;
struct ib_umem_odp;
struct mmu_interval_notifier;
struct mmu_interval_notifier_ops;
struct mmu_notifier_range;

struct ib_umem_odp *
sib_helper_odp_get(struct ib_device *device, unsigned long addr, size_t size,
		   int access, const struct mmu_interval_notifier_ops *ops);
void sib_helper_odp_release(struct ib_umem_odp *odp);
unsigned int sib_helper_odp_page_shift(struct ib_umem_odp *odp);
unsigned long sib_helper_odp_start(struct ib_umem_odp *odp);
unsigned long sib_helper_odp_end(struct ib_umem_odp *odp);
bool sib_helper_odp_writable(struct ib_umem_odp *odp);
void sib_helper_odp_lock(struct ib_umem_odp *odp);
void sib_helper_odp_unlock(struct ib_umem_odp *odp);
void *sib_helper_odp_private(struct ib_umem_odp *odp);
void sib_helper_odp_set_private(struct ib_umem_odp *odp, void *private);
int sib_helper_odp_map_and_lock(struct ib_umem_odp *odp, u64 va, u64 len,
				bool write, bool fault);
void *sib_helper_odp_page(struct ib_umem_odp *odp, size_t index,
			  bool *writable);
void sib_helper_odp_dirty(void *page);
void sib_helper_odp_unmap(struct ib_umem_odp *odp, u64 start, u64 end);
struct ib_umem_odp *sib_helper_odp_of(struct mmu_interval_notifier *notifier);
void sib_helper_mmu_interval_set_seq(struct mmu_interval_notifier *notifier,
				     unsigned long seq);
bool sib_helper_mmu_range_blockable(const struct mmu_notifier_range *range);

#endif
