/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SIB_HELPERS_MEM_H
#define SIB_HELPERS_MEM_H

#include <linux/types.h>

struct ib_umem;
struct vm_area_struct;

void sib_helper_copy(void *dst, const void *src, size_t len);
size_t sib_helper_umem_num_pages(struct ib_umem *umem);
size_t sib_helper_umem_page_addresses(struct ib_umem *umem, void **addresses,
				      size_t capacity);
void *sib_helper_alloc_pages(size_t count);
void *sib_helper_alloc_bulk(size_t size);
void sib_helper_vfree(const void *addr);
unsigned int sib_helper_no_io_begin(void);
void sib_helper_no_io_end(unsigned int before);
bool sib_helper_may_wait_for_io(void);
int sib_helper_map_pages(struct vm_area_struct *vma, void *pages);

#endif
