// SPDX-License-Identifier: GPL-2.0
/*
 * How this VM is rung. Interrupts coalesce and may come for nothing; all they
 * mean is "look". A peer that rings all the time gets `doorbell_budget`
 * interrupts a millisecond through to this VM; then the vector is masked until
 * the millisecond is over. Without doorbells there are none (scan.c).
 */
#include <linux/interrupt.h>

#include "driver.h"

#define WINDOW		NSEC_PER_MSEC

/* Jiffies: chores are not urgent, and a peer may ring all the time. */
#define CHORES_AFTER	1

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

void ulnic_doorbell_init(struct ulnic_device *device)
{
	if (device->has_doorbell)
		ulnic_timer_setup(&device->timer, pause_over, HRTIMER_MODE_REL);
	else
		ulnic_watch_init(device);
}

int ulnic_doorbell_start(struct ulnic_device *device)
{
	int error;

	if (!device->has_doorbell)
		return 0;
	error = pci_alloc_irq_vectors(device->pdev, 1, 1, PCI_IRQ_MSIX);
	if (error < 0)
		return error;
	device->irq = pci_irq_vector(device->pdev, ULNIC_VECTOR);
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
