/*
 * Cache lines that many vCPUs use: what the parts share
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef ACCEL_TCG_COHERENCE_INTERNAL_H
#define ACCEL_TCG_COHERENCE_INTERNAL_H

#include "system/coherence.h"
#include "coherence-line.h"

typedef enum CoherenceWatch {
    COHERENCE_OFF,
    COHERENCE_AUTO,             /* pages that more than one vCPU uses */
    COHERENCE_ALL,              /* every page */
} CoherenceWatch;

#define COHERENCE_PAGE_BITS 12
#define COHERENCE_PAGE_LINES (1 << (COHERENCE_PAGE_BITS - COHERENCE_LINE_BITS))

/*
 * A line's statistics for one place in the code: what brought the line there.
 */
typedef struct CoherenceSite {
    ram_addr_t line;
    vaddr pc;
    CoherenceAccess what;
    CoherenceLineStats stats;
} CoherenceSite;

/* A line and where it is. */
typedef struct CoherenceTracked {
    CoherenceLine line;
    ram_addr_t ram;
    vaddr addr;                 /* of the first access */
    /* Stalled vCPUs; one of them is called when the line is free. */
    uint64_t waiters[COHERENCE_MAX_CPUS / 64];
} CoherenceTracked;

/* coherence.c; before any vCPU exists */
void coherence_init(CoherenceWatch watch, const CoherenceProfile *p,
                    unsigned max_cpus);
/* A region begins or ends; TLBs are flushed before any vCPU runs on. */
void coherence_begin(void);
void coherence_end(void);
/* The time came that @cpu is stalled until. */
void coherence_turn(CPUState *cpu, int64_t when);
/* @cpu, which is stalled, runs on at @when, its access still to do. */
void coherence_end_stall(CPUState *cpu, int64_t when);

/* coherence-page.c */
void coherence_pages_init(CoherenceWatch watch);
void coherence_pages_reset(void);
/* What must be shown of @cpu's accesses to the page, as the TLB's filler. */
unsigned coherence_page_use(CPUState *cpu, ram_addr_t ram, vaddr addr);
/* Whether all accesses to the page are shown to vtime_ram_access() already. */
bool coherence_page_shown(ram_addr_t ram);
/* @cpu (NULL: a device) stores to a page that has other users. */
void coherence_page_stored(CPUState *cpu, ram_addr_t ram);
/* NULL: the page is not shared, or there is no room for more lines. */
CoherenceTracked *coherence_page_line(ram_addr_t ram, vaddr addr);
typedef void CoherenceLineFn(CoherenceTracked *t, void *opaque);
void coherence_foreach_line(CoherenceLineFn *fn, void *opaque);
/* Pages seen, pages shared, lines, accesses to lines there was no room for. */
typedef struct CoherencePageStats {
    uint64_t pages, shared, lines, untracked;
} CoherencePageStats;
void coherence_page_stats(CoherencePageStats *st);

/* coherence-report.c */
void coherence_sites_reset(void);
CoherenceSite *coherence_site(ram_addr_t line, vaddr pc, CoherenceAccess what);

/* cputlb.c, translate-all.c: what they export to vtime-tlb.c only */
void tlb_forget_entry(CPUState *cpu, int midx, vaddr page);
int cpu_unwind_data_from_tb(TranslationBlock *tb, uintptr_t host_pc,
                            uint64_t *data);

/* vtime-tlb.c */
/* Let @cpu's next access to the page at @addr fill its TLB anew. */
void vtime_tlb_forget(CPUState *cpu, vaddr addr);
/*
 * Where in the running TB the host address @ra is: the guest's program
 * counter, and how many instructions, this one included, are left of the
 * TB.  False if @ra is not inside a TB.
 */
bool vtime_unwind(CPUState *cpu, uintptr_t ra, vaddr *pc, int *insns_left);

#endif
