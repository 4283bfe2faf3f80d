// SPDX-License-Identifier: GPL-2.0
/*
 * The parameters of the module.
 */
#include <linux/module.h>

#include "driver.h"

unsigned int ulnic_dead_ms = 2000;
module_param_named(dead_ms, ulnic_dead_ms, uint, 0444);
MODULE_PARM_DESC(dead_ms, "a VM is dead after so long without a heartbeat");

unsigned int ulnic_quarantine_ms = 30000;
module_param_named(quarantine_ms, ulnic_quarantine_ms, uint, 0444);
MODULE_PARM_DESC(quarantine_ms, "how long memory is kept from reuse for the sake of a dead VM");

unsigned int ulnic_budget = 20;
module_param_named(doorbell_budget, ulnic_budget, uint, 0444);
MODULE_PARM_DESC(doorbell_budget, "interrupts in a millisecond before the vector is masked");
