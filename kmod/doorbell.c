// SPDX-License-Identifier: GPL-2.0
/*
 * Doorbells: to ring another VM, and to be rung. Interrupts coalesce and may
 * come for nothing; all they mean is "look". A peer that rings all the time
 * gets `doorbell_budget` interrupts a millisecond through to this VM; then the
 * vector is masked until the millisecond is over.
 *
 * Without doorbells (ivshmem-plain) a timer looks as long as somebody waits,
 * the less often the longer nothing comes.
 */
#include <linux/interrupt.h>

#include "driver.h"

#define REGISTER_DOORBELL	12
#define VECTOR			0

#define WINDOW		NSEC_PER_MSEC
#define OFTEN		(200 * NSEC_PER_USEC)
#define SELDOM		(4 * NSEC_PER_MSEC)

/* Jiffies: nobody is in a hurry for them, and a peer may ring all the time. */
#define CHORES_AFTER	1

void ulnic_doorbell_ring(struct ulnic_device *device, u64 slot)
{
	u64 bell = READ_ONCE(device->peers[slot].bell);

	atomic64_inc(&device->counters.doorbells_out);
	if (slot == device->slot)
		ulnic_scan(device);
	else if (device->has_doorbell && bell < ULNIC_BELLS)
		writel((u32)bell << 16 | VECTOR, device->registers + REGISTER_DOORBELL);
}

static bool is_over_budget(struct ulnic_device *device)
{
	ktime_t now = ktime_get();

	if (ktime_sub(now, device->window) >= WINDOW) {
		device->window = now;
		device->in_window = 0;
	}
	return ++device->in_window > ulnic_budget;
}

static irqreturn_t rung(int irq, void *argument)
{
	struct ulnic_device *device = argument;

	atomic64_inc(&device->counters.doorbells_in);
	if (is_over_budget(device)) {
		atomic64_inc(&device->counters.doorbells_held);
		disable_irq_nosync(irq);
		hrtimer_start(&device->timer, WINDOW, HRTIMER_MODE_REL);
	}
	return IRQ_WAKE_THREAD;
}

static irqreturn_t look(int irq, void *argument)
{
	struct ulnic_device *device = argument;

	ulnic_scan(device);
	if (!READ_ONCE(device->gone) && ulnic_has_news(device))
		queue_delayed_work(ulnic_queue, &device->chores, CHORES_AFTER);
	return IRQ_HANDLED;
}

static enum hrtimer_restart pause_over(struct hrtimer *timer)
{
	struct ulnic_device *device = container_of(timer, struct ulnic_device, timer);

	enable_irq(device->irq);
	irq_wake_thread(device->irq, device);
	return HRTIMER_NORESTART;
}

/* It starts itself anew: hrtimer_forward() must not meet ulnic_watch(). */
static enum hrtimer_restart time_to_look(struct hrtimer *timer)
{
	struct ulnic_device *device = container_of(timer, struct ulnic_device, timer);
	u64 interval = min_t(u64, 2 * READ_ONCE(device->interval), SELDOM);

	if (!ulnic_scan(device) || READ_ONCE(device->gone))
		return HRTIMER_NORESTART;
	WRITE_ONCE(device->interval, interval);
	hrtimer_start(timer, ns_to_ktime(interval), HRTIMER_MODE_REL_SOFT);
	return HRTIMER_NORESTART;
}

/*
 * Somebody is about to wait. The timer may be in its last round: it is started
 * whenever it is not queued.
 */
void ulnic_watch(struct ulnic_device *device)
{
	if (device->has_doorbell || READ_ONCE(device->gone))
		return;
	if (hrtimer_is_queued(&device->timer) && READ_ONCE(device->interval) == OFTEN)
		return;
	WRITE_ONCE(device->interval, OFTEN);
	hrtimer_start(&device->timer, OFTEN, HRTIMER_MODE_REL_SOFT);
}

void ulnic_doorbell_init(struct ulnic_device *device)
{
	if (device->has_doorbell)
		ulnic_timer_setup(&device->timer, pause_over, HRTIMER_MODE_REL);
	else
		ulnic_timer_setup(&device->timer, time_to_look, HRTIMER_MODE_REL_SOFT);
}

int ulnic_doorbell_start(struct ulnic_device *device)
{
	int error;

	if (!device->has_doorbell)
		return 0;
	error = pci_alloc_irq_vectors(device->pdev, 1, 1, PCI_IRQ_MSIX);
	if (error < 0)
		return error;
	device->irq = pci_irq_vector(device->pdev, VECTOR);
	error = request_threaded_irq(device->irq, rung, look, 0, dev_name(&device->dev), device);
	if (error)
		pci_free_irq_vectors(device->pdev);
	return error;
}

/* No interrupt after this; ulnic_kill() was before, so that no timer finds anything. */
void ulnic_doorbell_stop(struct ulnic_device *device)
{
	if (device->has_doorbell)
		disable_irq(device->irq);
	hrtimer_cancel(&device->timer);
	if (device->has_doorbell) {
		free_irq(device->irq, device);
		pci_free_irq_vectors(device->pdev);
	}
}
