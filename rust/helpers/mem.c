// SPDX-License-Identifier: GPL-2.0

#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/vmalloc.h>
#include <rdma/ib_umem.h>

#include "mem.h"

size_t sib_helper_umem_num_pages(struct ib_umem *umem)
{
	return ib_umem_num_pages(umem);
}

/* Stores the kernel addresses of the pages in order; returns how many there are, capacity at most. */
size_t sib_helper_umem_page_addresses(struct ib_umem *umem, void **addresses,
				      size_t capacity)
{
	struct sg_table *sgt = &umem->sgt_append.sgt;
	struct sg_page_iter iter;
	size_t n = 0;

	__sg_page_iter_start(&iter, sgt->sgl, sgt->orig_nents, 0);
	while (n < capacity && __sg_page_iter_next(&iter))
		addresses[n++] = page_address(sg_page_iter_page(&iter));
	return n;
}

void *sib_helper_vmalloc_user(unsigned long size)
{
	return vmalloc_user(size);
}

void sib_helper_vfree(const void *addr)
{
	vfree(addr);
}

int sib_helper_remap_vmalloc_range(struct vm_area_struct *vma, void *addr,
				   unsigned long pgoff)
{
	return remap_vmalloc_range(vma, addr, pgoff);
}
