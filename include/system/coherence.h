/*
 * Cache lines that many vCPUs use: hooks of the TCG core and the targets
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Part of vtime (docs/specs/coherence.rst), active inside regions.  Everything
 * here belongs to the vCPU thread unless it says otherwise.  The callers guard
 * vtime_*() by vtime_enabled() and coherence_*() by coherence_active().
 */

#ifndef SYSTEM_COHERENCE_H
#define SYSTEM_COHERENCE_H

#include "exec/cpu-common.h"
#include "hw/core/cpu.h"

/*
 * Flag of a translation block: atomic operations call the helpers, as if vCPUs
 * ran in parallel.  Of those that exec/translation-block.h leaves free.
 */
#define CF_VTIME_ATOMIC 0x00100000
#define CF_ATOMIC_HELPERS (CF_PARALLEL | CF_VTIME_ATOMIC)

/* True in a region, if -accel tcg,vtime-watch= asks for it. */
#if defined(CONFIG_TCG) && !defined(CONFIG_USER_ONLY)
extern bool coherence_is_active;
#define coherence_active() unlikely(coherence_is_active)
#else
#define coherence_active() false
#endif

typedef enum CoherenceAccess {
    COHERENCE_ACCESS_LOAD,
    COHERENCE_ACCESS_STORE,
    COHERENCE_ACCESS_ATOMIC,
} CoherenceAccess;

/*
 * @cpu's TLB gets an entry for the page of RAM at @ram, seen at @addr.
 * Returns which accesses must be shown to vtime_ram_access():
 * BIT(COHERENCE_ACCESS_LOAD), BIT(COHERENCE_ACCESS_STORE).
 */
unsigned vtime_tlb_fill(CPUState *cpu, ram_addr_t ram, vaddr addr);

/*
 * An access is about to happen.  Does not return if another vCPU is behind
 * and the line must come from elsewhere: then the instruction at @ra is
 * restarted later.
 */
void vtime_ram_access(CPUState *cpu, ram_addr_t ram, vaddr addr,
                      unsigned size, CoherenceAccess what, uintptr_t ra);
/* A device wrote to RAM; any thread. */
void vtime_device_wrote(ram_addr_t ram, uint64_t len);

/* The compare-and-swap whose access was shown last. */
void coherence_cas_done(CPUState *cpu, bool success);
#define COHERENCE_CAS_DONE(success) do {                \
        if (coherence_active()) {                       \
            coherence_cas_done(env_cpu(env), success);  \
        }                                               \
    } while (0)

/* Load exclusive at @addr; whether a store exclusive may succeed. */
void coherence_load_exclusive(CPUState *cpu, vaddr addr);
bool coherence_store_exclusive(CPUState *cpu, vaddr addr, uintptr_t ra);

/*
 * What happened to the lines in the region that ended last, as lines of JSON
 * (docs/specs/coherence.rst, "Report"); NULL if they were not watched.
 */
char *coherence_report(uint32_t region);

#endif
