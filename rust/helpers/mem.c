// SPDX-License-Identifier: GPL-2.0

#include <linux/gfp.h>
#include <linux/kmemleak.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
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

/* A task at its limit is refused, not killed, and the log has no line for that. */
#define CHARGED (GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/*
 * Zeroed pages in a row, charged to the memory cgroup of the task, for vfree(). What there is of too many is free
 * again at the return, not later as with __vmalloc(): the task would be killed for what it wants next.
 */
void *sib_helper_alloc_pages(size_t count)
{
	struct page **pages = kvmalloc_array(count, sizeof(*pages), CHARGED);
	size_t n = 0;
	void *memory;

	if (!pages)
		return NULL;
	while (n < count) {
		pages[n] = alloc_page(CHARGED | __GFP_ZERO);
		if (!pages[n])
			goto free;
		n++;
	}
	memory = vmap(pages, count, VM_MAP | VM_MAP_PUT_PAGES, PAGE_KERNEL);
	if (memory) {
		/* It may hold pointers. As for vmalloc(), the area is a reference. */
		kmemleak_alloc(memory, count * PAGE_SIZE, 2, GFP_KERNEL);
		return memory;
	}
free:
	while (n)
		__free_page(pages[--n]);
	kvfree(pages);
	return NULL;
}

/* Memory of any size, charged as well, for kvfree(). */
void *sib_helper_alloc_bulk(size_t size)
{
	void *memory;

	if (size <= PAGE_SIZE)
		return kmalloc(size, CHARGED);
	/* As kvmalloc() has it, which has __vmalloc() for the rest. */
	memory = kmalloc(size, CHARGED & ~__GFP_DIRECT_RECLAIM);
	return memory ?: sib_helper_alloc_pages(DIV_ROUND_UP(size, PAGE_SIZE));
}

void sib_helper_vfree(const void *addr)
{
	vfree(addr);
}

/* Maps pages in a row, all that fit. */
int sib_helper_map_pages(struct vm_area_struct *vma, void *pages)
{
	unsigned long addr;
	int ret = 0;

	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	for (addr = vma->vm_start; !ret && addr < vma->vm_end; addr += PAGE_SIZE) {
		ret = vm_insert_page(vma, addr, vmalloc_to_page(pages));
		pages += PAGE_SIZE;
	}
	return ret;
}

unsigned int sib_helper_no_io_begin(void)
{
	return memalloc_noio_save();
}

void sib_helper_no_io_end(unsigned int before)
{
	memalloc_noio_restore(before);
}

bool sib_helper_may_wait_for_io(void)
{
	return current_gfp_context(GFP_KERNEL) & __GFP_IO;
}
