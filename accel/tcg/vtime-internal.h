/*
 * vtime: what the scheduler and the parking of pollers share
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef ACCEL_TCG_VTIME_INTERNAL_H
#define ACCEL_TCG_VTIME_INTERNAL_H

#include "system/vtime.h"

#define VTIME_MAX_LINES 8       /* polled by one loop */
#define VTIME_MAX_REGS 512      /* bytes of register state compared */
#define VTIME_NEVER INT64_MAX

/*
 * splitmix64, a generator whose every state is a good one: add the step to the
 * state, mix it.  The same numbers in every run.
 */
#define SPLITMIX64_STEP 0x9e3779b97f4a7c15ULL

static inline uint64_t splitmix64_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/* Detection of a polling loop, from one PAUSE to the next. */
typedef enum VTimePoll {
    POLL_NONE,
    POLL_SAME,          /* one iteration changed no register */
    POLL_TRACE,         /* the iteration now running is traced */
} VTimePoll;

/* What each slice touches comes first: 64 vCPUs take turns in the cache. */
typedef struct VTimeCPU {
    CPUState *cpu;
    int64_t clock;              /* up to the last vtime_account() */
    int64_t irq_due;            /* pending interrupts arrive then */
    unsigned heap_pos;          /* 1-based; 0: not queued (idle) */
    int64_t wake;               /* heap key while parked or stalled */
    bool parked;
    VTimeParkCause park_cause;
    bool stalled;               /* waits for its turn at a cache line */
    bool work;                  /* has queued cross-CPU work */
    bool event;                 /* Arm's event register */
    bool yielded;               /* gave way in vtime_order() */
    uint64_t insns;
    uint64_t slice_insns;       /* insns when the slice began */
    /* Of the region; total and exec are derived.  Begins with slices. */
    VTimeStats stats;
    int64_t begin;              /* clock when the region began */
    uint64_t begin_insns;

    /* polling */
    VTimePoll poll;
    vaddr poll_pc;
    uint64_t poll_insns;
    unsigned poll_backoff;      /* PAUSEs to ignore after an impure loop */
    bool trace_impure;
    unsigned n_trace;
    vaddr trace[VTIME_MAX_LINES];
    unsigned n_lines;
    ram_addr_t lines[VTIME_MAX_LINES];
    uint8_t regs[VTIME_MAX_REGS];
} VTimeCPU;

/* vtime.c: before any vCPU exists. */
void vtime_start(const VTimeConfig *cfg, unsigned max_cpus);

/* NULL before the vCPU's thread was asked for. */
VTimeCPU *vtime_cpu(CPUState *cpu);
int64_t vtime_cpu_now(VTimeCPU *v);
int64_t vtime_pause_cost(void);
void vtime_charge(VTimeCPU *v, int64_t ps);
int64_t vtime_ps_per_insn(void);
/* Whether another vCPU is behind @when; @v is running. */
bool vtime_is_ahead(VTimeCPU *v, int64_t when);
/* End the running slice; the instruction at @ra is executed later. */
G_NORETURN void vtime_give_way(CPUState *cpu, uintptr_t ra);

/*
 * Stall the running vCPU, which then gives way; coherence_turn() is called at
 * @wake.  No interrupt ends a stall: an access that waits cannot be abandoned.
 */
void vtime_stall(VTimeCPU *v, int64_t wake);
/* Have coherence_turn() called at @wake instead; @v is stalled. */
void vtime_stall_until(VTimeCPU *v, int64_t wake);
/* Let @v run on at @when; returns how long it was stalled. */
int64_t vtime_stall_end(VTimeCPU *v, int64_t when);

/* Park the running vCPU on v->lines until woken or the bound passes. */
void vtime_park(VTimeCPU *v, VTimeParkCause cause);
/* The running vCPU (or a device) wakes @v. */
void vtime_unpark(VTimeCPU *v, int64_t when);

/* Whether the caller is the vCPU thread. */
bool vtime_in_thread(void);
/* Another thread changed memory: let all parked vCPUs look again. */
void vtime_wake_pollers(void);

/* vtime-park.c */
void vtime_park_init(void);
void vtime_lines_add(VTimeCPU *v);
void vtime_lines_remove(VTimeCPU *v);
void vtime_poll_reset(VTimeCPU *v);
/* Flush all TLBs before any vCPU runs on. */
void vtime_request_flush(void);
/* Have no memory of what the vCPU executed so far. */
void vtime_poll_forget(VTimeCPU *v);
/* Pages became watched: TLBs must be flushed before any vCPU runs on. */
bool vtime_watch_flush_needed(void);

/* vtime-tlb.c: where @addr, just loaded by @cpu, lies in RAM; false if not. */
bool vtime_vaddr_to_ram(CPUState *cpu, vaddr addr, ram_addr_t *ram);

/* By index, up to the machine's max_cpus; NULL where there is no vCPU. */
extern VTimeCPU **vtime_cpus;
extern unsigned vtime_n_cpus;

#endif
