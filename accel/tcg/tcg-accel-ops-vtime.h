/*
 * vtime: accelerator operations
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TCG_ACCEL_OPS_VTIME_H
#define TCG_ACCEL_OPS_VTIME_H

#include "system/accel-ops.h"

void vtime_accel_ops_init(AccelOpsClass *ops);

#endif
