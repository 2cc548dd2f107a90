/*
 * vtime: a virtual clock for each vCPU
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * One host thread runs all vCPUs as a discrete-event simulation whose events
 * are slices of guest code.  Times are picoseconds (int64_t, from machine
 * creation; range about 106 days) unless a name says ns.
 *
 * Locking: everything here belongs to the vCPU thread.  Functions that other
 * threads may call say so.
 */

#ifndef SYSTEM_VTIME_H
#define SYSTEM_VTIME_H

#include "exec/cpu-common.h"
#include "hw/core/cpu.h"

/* True if -accel tcg,vtime=on was given; any thread. */
#if defined(CONFIG_TCG) && !defined(CONFIG_USER_ONLY)
extern bool vtime_on;
#define vtime_enabled() unlikely(vtime_on)
#else
#define vtime_enabled() false
#endif

/*
 * Costs, from a profile (docs/specs/vtime.rst).  Each is in picoseconds and
 * within 0..VTIME_MAX_COST_PS, except ps_per_insn, which is at least 1.
 */
#define VTIME_MAX_COST_PS (1000LL * 1000 * 1000)

typedef struct VTimeProfile {
    char *name;
    int64_t ps_per_insn;
    int64_t pause;              /* PAUSE, YIELD */
    int64_t mmio_read;
    int64_t mmio_write;
    int64_t ipi;                /* vCPU to vCPU */
    int64_t irq;                /* device or timer to vCPU */
} VTimeProfile;

typedef struct VTimeConfig {
    int64_t quantum;            /* timed mode */
    int64_t boot_quantum;       /* functional mode */
    int64_t park_bound;         /* longest time parked before a look around */
    uint64_t jitter;            /* 0: none; else seed of the start offsets */
    VTimeProfile profile;
} VTimeConfig;

/* Why a vCPU was parked. */
typedef enum VTimeParkCause {
    VTIME_PARK_WFE,
    VTIME_PARK_POLL,            /* PAUSE or YIELD in a polling loop */
    VTIME_PARK__MAX,
} VTimeParkCause;

/*
 * Where the time of one vCPU went in a region.  The parts add up to the time
 * between the region's begin and end on this vCPU's clock:
 *   total == exec + pause + mmio + line_wait + line_transfer + atomic +
 *            sum(parked) + idle + jitter
 */
typedef struct VTimeStats {
    uint64_t slices;
    uint64_t insns;
    int64_t total;
    int64_t exec;
    int64_t pause;
    int64_t mmio;
    int64_t line_wait;          /* docs/specs/coherence.rst */
    int64_t line_transfer;
    int64_t atomic;
    int64_t parked[VTIME_PARK__MAX];
    int64_t idle;
    int64_t jitter;
    uint64_t parks;
} VTimeStats;

/*
 * Load costs from a GKeyFile.
 * Errors: unreadable file, unknown or missing key, value out of range.
 */
bool vtime_profile_load(VTimeProfile *p, const char *path, Error **errp);

/* Add vtime's options to the TCG accelerator's class. */
void vtime_add_options(ObjectClass *oc);

/*
 * Switch virtual time on if the options ask for it; before any vCPU exists.
 * Errors: conflicting accelerator options, a bad profile.
 */
bool vtime_init(bool mttcg, unsigned max_cpus, Error **errp);

/*
 * Timed mode with the cost profile, or functional mode with a large quantum
 * and no costs.  No effect without vtime.  From a vCPU or with the BQL.
 */
void vtime_region_begin(void);
void vtime_region_end(void);

/*
 * Time spent since vtime_region_begin() (or in the last region, once ended).
 * Returns false when cpu_index has no vCPU or vtime is off.
 */
bool vtime_region_stats(int cpu_index, VTimeStats *stats);

/*
 * Called by a device from a vCPU that accesses it: end the slice and forget
 * all that is not migrated (who is parked, on what), so that a machine that
 * is saved here and restored goes on as one that is not.
 */
void vtime_checkpoint(void);

/*
 * Nothing more executes, from the end of the calling vCPU's present
 * instruction, until the main loop has stopped all vCPUs.  For requests that
 * the main loop carries out some host time later.  No effect in other
 * threads.
 */
void vtime_freeze(void);

/* The calling vCPU's clock, elsewhere the smallest of all; any thread. */
int64_t vtime_get_ps(void);
int64_t vtime_get_ns(void);

/* Instructions that the running vCPU executed, else all vCPUs' sum. */
int64_t vtime_get_insns(void);

/*
 * Hooks of the TCG core and the targets.  All are no-ops without vtime, and
 * the callers guard them by vtime_enabled().
 */

/* The running vCPU's slice budget ran out at a TB of @tb_insns. */
void vtime_budget_expired(CPUState *cpu, int tb_insns);
/* Fold executed instructions into the vCPU's clock. */
void vtime_account(CPUState *cpu);
/* An interrupt is pending, but has not travelled to this vCPU yet. */
bool vtime_irq_held(CPUState *cpu);
/*
 * A clock read or device access happens in global time order: if another
 * vCPU is behind, end the slice and restart the instruction at @ra (does not
 * return then).
 */
void vtime_order(CPUState *cpu, uintptr_t ra);
/* Charge a device access. */
void vtime_charge_mmio(CPUState *cpu, bool is_write);
/* A bottom half was scheduled. */
void vtime_bh_scheduled(void);
/* The next virtual timer changed. */
void vtime_timers_changed(void);

/*
 * PAUSE or YIELD at @pc.  @regs are the general registers and flags; an
 * iteration that leaves them as they were is a polling loop.  Returns true
 * if the vCPU parks: the caller then leaves the loop with EXCP_YIELD.
 */
bool vtime_pause(CPUState *cpu, vaddr pc, const void *regs, size_t len);
/* WFE waits, for @addr's line if @armed.  As above. */
bool vtime_wfe(CPUState *cpu, bool armed, vaddr addr);
void vtime_sev(CPUState *cpu);
void vtime_sevl(CPUState *cpu);
/* Polled lines: see vtime-park.c. */
bool vtime_page_watched(ram_addr_t page);
void vtime_ram_written(ram_addr_t addr, uint64_t len);
void vtime_trace_access(CPUState *cpu, vaddr addr, bool is_store);

#endif /* SYSTEM_VTIME_H */
