/*
 * vtime: vCPUs that wait by polling are parked
 *
 * A vCPU in WFE, or in a PAUSE/YIELD loop that leaves its registers as they
 * were and stores nothing, cannot learn anything new until a line that it
 * reads changes or an interrupt arrives.  It is parked until then and its
 * clock moves to the time of the store: the polls in between are accounted,
 * not executed.  A bound (park_bound) limits how long a change that is not
 * seen here (there should be none) could stay unnoticed.
 *
 * Stores are seen because pages with polled lines carry TLB_VTIME in the
 * vCPUs' TLBs, which sends stores to them through the slow path.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "exec/cputlb.h"
#include "exec/translation-block.h"
#include "hw/core/cpu.h"
#include "coherence-internal.h"
#include "vtime-internal.h"
#include "trace.h"

#define LINE_BITS 6
#define VTIME_PAGE_BITS 12      /* guest pages may be larger */
#define POLL_MAX_INSNS 256      /* longest iteration taken for polling */
#define WFE_MAX_INSNS 32        /* from an exclusive load to its WFE */
#define IMPURE_BACKOFF 64       /* PAUSEs before an impure loop is retried */
#define FILTER_SIZE 1024

static GHashTable *watched_pages;
static bool flush_needed;

/* Counting filter of polled lines: most stores to watched pages miss it. */
static uint8_t filter[FILTER_SIZE];

static inline unsigned filter_slot(ram_addr_t line)
{
    return (line >> LINE_BITS) & (FILTER_SIZE - 1);
}

void vtime_park_init(void)
{
    watched_pages = g_hash_table_new(NULL, NULL);
}

bool vtime_page_watched(ram_addr_t page)
{
    return g_hash_table_contains(watched_pages,
                                 GSIZE_TO_POINTER(page >> VTIME_PAGE_BITS));
}

static void watch_page(ram_addr_t addr)
{
    if (g_hash_table_add(watched_pages,
                         GSIZE_TO_POINTER(addr >> VTIME_PAGE_BITS)) &&
        !coherence_page_shown(addr)) {
        flush_needed = true;
    }
}

void vtime_request_flush(void)
{
    flush_needed = true;
}

bool vtime_watch_flush_needed(void)
{
    bool needed = flush_needed;

    flush_needed = false;
    return needed;
}

void vtime_lines_add(VTimeCPU *v)
{
    for (unsigned i = 0; i < v->n_lines; i++) {
        watch_page(v->lines[i]);
        filter[filter_slot(v->lines[i])]++;
    }
}

void vtime_lines_remove(VTimeCPU *v)
{
    for (unsigned i = 0; i < v->n_lines; i++) {
        filter[filter_slot(v->lines[i])]--;
    }
    v->n_lines = 0;
}

/* @addr..@addr+@len was or is about to be stored to. */
void vtime_ram_written(ram_addr_t addr, uint64_t len)
{
    ram_addr_t line = addr & -(1 << LINE_BITS);
    ram_addr_t last = (addr + len - 1) & -(1 << LINE_BITS);
    int64_t now;

    if (!vtime_in_thread()) {
        vtime_wake_pollers();
        return;
    }

    /* Beyond the filter's size each slot would be looked at anyway. */
    for (unsigned n = 0; line <= last; line += 1 << LINE_BITS, n++) {
        if (n < FILTER_SIZE && !filter[filter_slot(line)]) {
            continue;
        }
        now = vtime_get_ps();
        for (unsigned i = 0; i < vtime_n_cpus; i++) {
            VTimeCPU *v = vtime_cpus[i];

            if (!v || !v->parked) {
                continue;
            }
            for (unsigned j = 0; j < v->n_lines; j++) {
                if (v->lines[j] >= line &&
                    v->lines[j] <= (n < FILTER_SIZE ? line : last)) {
                    vtime_unpark(v, now);
                    break;
                }
            }
        }
        if (n >= FILTER_SIZE) {
            break;
        }
    }
}

void vtime_poll_reset(VTimeCPU *v)
{
    if (v->poll == POLL_TRACE) {
        v->cpu->tcg_cflags &= ~CF_VTIME_TRACE;
    }
    v->poll = POLL_NONE;
}

void vtime_poll_forget(VTimeCPU *v)
{
    vtime_poll_reset(v);
    v->poll_pc = 0;
    v->poll_insns = 0;
    v->poll_backoff = 0;
    v->yielded = false;
}

void vtime_trace_access(CPUState *cpu, vaddr addr, bool is_store)
{
    VTimeCPU *v = vtime_cpu(cpu);

    if (v->poll != POLL_TRACE || is_store || v->n_trace == VTIME_MAX_LINES) {
        /* Not a polling loop: leave the traced blocks. */
        v->trace_impure = true;
        cpu->tcg_cflags &= ~CF_VTIME_TRACE;
        qatomic_set(&cpu->neg.icount_decr.u16.high, -1);
    } else {
        v->trace[v->n_trace++] = addr;
    }
}

/* The traced loop read v->trace[]: find the lines.  False if not RAM. */
static bool resolve_trace(VTimeCPU *v)
{
    v->n_lines = 0;
    for (unsigned i = 0; i < v->n_trace; i++) {
        ram_addr_t ram;
        unsigned j;

        if (!vtime_vaddr_to_ram(v->cpu, v->trace[i], &ram)) {
            v->n_lines = 0;
            return false;
        }
        ram &= -(ram_addr_t)(1 << LINE_BITS);
        for (j = 0; j < v->n_lines; j++) {
            if (v->lines[j] == ram) {
                break;
            }
        }
        if (j == v->n_lines) {
            v->lines[v->n_lines++] = ram;
        }
    }
    return v->n_lines > 0;
}

bool vtime_pause(CPUState *cpu, vaddr pc, const void *regs, size_t len)
{
    VTimeCPU *v = vtime_cpu(cpu);
    int64_t cost = vtime_pause_cost();
    uint64_t insns = vtime_get_insns();
    uint64_t since = v->poll_insns;
    bool same;

    g_assert(len <= VTIME_MAX_REGS);
    v->stats.pause += cost;
    vtime_charge(v, cost);

    if (v->poll_backoff) {
        v->poll_backoff--;
        return false;
    }
    same = pc == v->poll_pc && insns - v->poll_insns <= POLL_MAX_INSNS &&
           !memcmp(regs, v->regs, len);
    v->poll_insns = insns;

    if (!same) {
        vtime_poll_reset(v);
        v->poll_pc = pc;
        memcpy(v->regs, regs, len);
        return false;
    }

    switch (v->poll) {
    case POLL_NONE:
        v->poll = POLL_SAME;
        return false;
    case POLL_SAME:
        v->poll = POLL_TRACE;
        v->n_trace = 0;
        v->trace_impure = false;
        cpu->tcg_cflags |= CF_VTIME_TRACE;
        return false;
    case POLL_TRACE:
        if (since < v->slice_insns && !v->trace_impure) {
            /* Others ran after the loads and before now: once more. */
            v->n_trace = 0;
            return false;
        }
        cpu->tcg_cflags &= ~CF_VTIME_TRACE;
        v->poll = POLL_SAME;
        if (v->trace_impure || !resolve_trace(v)) {
            v->poll = POLL_NONE;
            v->poll_backoff = IMPURE_BACKOFF;
            return false;
        }
        vtime_park(v, VTIME_PARK_POLL);
        return true;
    }
    g_assert_not_reached();
}

bool vtime_wfe(CPUState *cpu, bool armed, vaddr addr)
{
    VTimeCPU *v = vtime_cpu(cpu);
    ram_addr_t ram;

    if (v->event) {
        v->event = false;
        return false;
    }
    v->n_lines = 0;
    if (armed) {
        /*
         * If others ran since the exclusive load, one of them may have
         * cleared the monitor.  WFE may end for no reason, so do that.
         */
        if (vtime_get_insns() - v->slice_insns < WFE_MAX_INSNS ||
            !vtime_vaddr_to_ram(cpu, addr, &ram)) {
            return false;
        }
        v->lines[v->n_lines++] = ram & -(ram_addr_t)(1 << LINE_BITS);
    }
    vtime_park(v, VTIME_PARK_WFE);
    return true;
}

void vtime_sevl(CPUState *cpu)
{
    vtime_cpu(cpu)->event = true;
}

void vtime_sev(CPUState *cpu)
{
    int64_t now = vtime_get_ps();

    for (unsigned i = 0; i < vtime_n_cpus; i++) {
        VTimeCPU *v = vtime_cpus[i];

        if (!v) {
            continue;
        }
        if (v->parked && v->park_cause == VTIME_PARK_WFE) {
            vtime_unpark(v, now);
        } else {
            v->event = true;
        }
    }
}
