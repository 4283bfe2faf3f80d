// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings: area 0 of an endpoint's file is its own aperture, area n + 1 that
 * of connection n. Pages are mapped when they are touched, so that a right
 * that has ended shows at the next touch.
 *
 * BAR 2 is memory of the host: the mappings are cached (memremap() has told
 * the page attribute table so, which vmf_insert_pfn() asks).
 */
#include <linux/nospec.h>

#include "driver.h"

#define AREA_SHIFT	32
#define AREA_PAGES	(1UL << (AREA_SHIFT - PAGE_SHIFT))
#define AREAS		(1 + ULNIC_CONNECTIONS_MAX)
static_assert(ULNIC_APERTURE_MAX == 1ULL << AREA_SHIFT);

struct window {
	u64 offset;	/* in the region */
	u64 length;
	bool is_dead;
};

/* What an area shows; endpoint->lock is held. */
static int window_of(struct ulnic_endpoint *endpoint, unsigned long area, struct window *window)
{
	struct ulnic_connection *connection;

	if (!area) {
		if (!endpoint->aperture)
			return -EACCES;
		window->offset = endpoint->aperture->offset;
		window->length = endpoint->aperture->length;
		window->is_dead = endpoint->is_revoked;
		return 0;
	}
	if (area >= AREAS)
		return -EINVAL;
	connection = &endpoint->connections[array_index_nospec(area - 1, ULNIC_CONNECTIONS_MAX)];
	if (connection->link == ULNIC_FREE)
		return -EACCES;
	window->offset = connection->offset;
	window->length = connection->length;
	window->is_dead = connection->link != ULNIC_CONNECTED;
	return 0;
}

static vm_fault_t fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct ulnic_endpoint *endpoint = vma->vm_private_data;
	u64 within = (u64)(vmf->pgoff % AREA_PAGES) << PAGE_SHIFT;
	vm_fault_t result = VM_FAULT_SIGBUS;
	struct window window;
	unsigned long pfn;

	mutex_lock(&endpoint->lock);
	if (!window_of(endpoint, vmf->pgoff / AREA_PAGES, &window) && within < window.length) {
		pfn = window.is_dead ? page_to_pfn(endpoint->nothing) :
		      PHYS_PFN(endpoint->device->base + window.offset + within);
		result = vmf_insert_pfn(vma, vmf->address, pfn);
	}
	mutex_unlock(&endpoint->lock);
	return result;
}

/* Counts the mappings of a connection: it is not to be another one below them. */
static void count(struct vm_area_struct *vma, int by)
{
	struct ulnic_endpoint *endpoint = vma->vm_private_data;
	unsigned long area = vma->vm_pgoff / AREA_PAGES;

	if (!area)
		return;
	mutex_lock(&endpoint->lock);
	endpoint->connections[area - 1].mappings += by;
	mutex_unlock(&endpoint->lock);
}

static void opened(struct vm_area_struct *vma)
{
	count(vma, 1);
}

static void closed(struct vm_area_struct *vma)
{
	count(vma, -1);
}

static const struct vm_operations_struct operations = {
	.open = opened,
	.close = closed,
	.fault = fault,
};

/* All of it lies in one area: what is counted and unmapped is that of its first page. */
static int check(struct ulnic_endpoint *endpoint, struct vm_area_struct *vma)
{
	u64 within = (u64)(vma->vm_pgoff % AREA_PAGES) << PAGE_SHIFT;
	struct window window;
	int error;

	error = window_of(endpoint, vma->vm_pgoff / AREA_PAGES, &window);
	if (error)
		return error;
	if (window.is_dead)
		return -ECONNRESET;
	if (within >= window.length || vma->vm_end - vma->vm_start > window.length - within)
		return -EINVAL;
	return 0;
}

int ulnic_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct ulnic_endpoint *endpoint = file->private_data;
	unsigned long area = vma->vm_pgoff / AREA_PAGES;
	int error;

	/* A private mapping of such pages cannot be; a read-only file has none. */
	if (!(vma->vm_flags & VM_SHARED) || vma->vm_flags & VM_EXEC)
		return -EACCES;
	mutex_lock(&endpoint->lock);
	error = check(endpoint, vma);
	if (!error && area)
		endpoint->connections[area - 1].mappings++;
	mutex_unlock(&endpoint->lock);
	if (error)
		return error;
	ulnic_change_flags(vma, VM_IO | VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP, VM_MAYEXEC);
	vma->vm_private_data = endpoint;
	vma->vm_ops = &operations;
	return 0;
}

/* Takes all pages of an area out of all processes that have it mapped. */
void ulnic_unmap(struct ulnic_endpoint *endpoint, u64 area)
{
	unmap_mapping_range(endpoint->inode->i_mapping, area << AREA_SHIFT, 1ULL << AREA_SHIFT, 1);
}
