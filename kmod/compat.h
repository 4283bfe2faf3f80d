/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between kernels from 6.1 on. Kbuild looks into the headers and
 * defines ULNIC_HAVE_*.
 */
#ifndef ULNIC_COMPAT_H
#define ULNIC_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/mm.h>

static inline void ulnic_change_flags(struct vm_area_struct *vma, unsigned long set,
				      unsigned long clear)
{
#ifdef ULNIC_HAVE_VM_FLAGS_SET
	vm_flags_mod(vma, set, clear);
#else
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#endif
}

static inline void ulnic_timer_setup(struct hrtimer *timer,
				     enum hrtimer_restart (*expired)(struct hrtimer *),
				     enum hrtimer_mode mode)
{
#ifdef ULNIC_HAVE_HRTIMER_SETUP
	hrtimer_setup(timer, expired, CLOCK_MONOTONIC, mode);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, mode);
	timer->function = expired;
#endif
}

#endif /* ULNIC_COMPAT_H */
