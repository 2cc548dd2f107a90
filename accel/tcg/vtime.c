/*
 * vtime: the scheduler that gives each vCPU its own clock
 *
 * A discrete-event simulation whose events are slices of guest code.  The
 * runnable vCPU with the smallest clock runs until the next smallest clock
 * plus a quantum, or until the next virtual timer; a slice ends where a
 * translation block ends.  Whatever can be observed from outside a vCPU other
 * than plain memory (clock reads, device accesses, timers) happens in global
 * time order; plain memory is seen at most a quantum too early.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "qemu/guest-random.h"
#include "qemu/main-loop.h"
#include "qemu/rcu.h"
#include "qemu/timer.h"
#include "exec/cpu-common.h"
#include "exec/cputlb.h"
#include "hw/core/cpu.h"
#include "migration/vmstate.h"
#include "system/cpu-timers.h"
#include "system/cpus.h"
#include "system/runstate.h"
#include "system/tcg.h"
#include "tcg/startup.h"
#include "tcg-accel-ops.h"
#include "tcg-accel-ops-vtime.h"
#include "coherence-internal.h"
#include "vtime-internal.h"
#include "trace.h"

bool vtime_on;
VTimeCPU **vtime_cpus;
unsigned vtime_n_cpus;

/* The key is here and not looked up, so that the heap stays in the cache. */
typedef struct VTimeEntry {
    int64_t key;                /* the vCPU's clock, or when it is to wake */
    int index;
    VTimeCPU *v;
} VTimeEntry;

/*
 * Instructions; about a millisecond of the host.  Constant, so that slices
 * are the same in each run.
 */
#define MAX_SLICE (1 << 20)

typedef struct VTime {
    VTimeConfig cfg;
    bool timed;
    int64_t quantum;            /* of the present mode */
    int64_t now;                /* smallest clock; never runs backwards */
    int64_t deadline;           /* next virtual timer */
    bool deadline_stale;

    VTimeEntry *heap;           /* 1-based, by (key, index) */
    unsigned n_heap;

    VTimeCPU *running;          /* inside its slice */
    VTimeCPU *current;          /* owns the slice, running or interrupted */
    int64_t slice_end;
    int64_t next_min;           /* smallest key among the others */

    bool frozen;                /* no slice until the vCPUs were stopped */
    bool work;                  /* some vCPU has queued work */
    bool bh;                    /* a bottom half was scheduled by a vCPU */
    bool kicked;                /* by another thread (atomic) */
    bool wake_pollers;          /* the same, for vtime_wake_pollers() */
    QemuThread *thread;
} VTime;

static VTime vt;
static const VMStateDescription vmstate_vtime_cpu;

VTimeCPU *vtime_cpu(CPUState *cpu)
{
    return vtime_cpus[cpu->cpu_index];
}

/* ------------------------------------------------------------- the heap */

static inline VTimeEntry entry(VTimeCPU *v)
{
    return (VTimeEntry) {
        .key = v->parked || v->stalled ? v->wake : v->clock,
        .index = v->cpu->cpu_index,
        .v = v,
    };
}

/*
 * Ties go to the smaller index, so that the order is total.  No branches:
 * which is first is anybody's guess.
 */
static inline bool before(const VTimeEntry *a, const VTimeEntry *b)
{
    return (a->key < b->key) |
           ((a->key == b->key) & (a->index < b->index));
}

static inline void heap_put(unsigned i, const VTimeEntry *e)
{
    vt.heap[i] = *e;
    e->v->heap_pos = i;
}

static void heap_up(VTimeCPU *v)
{
    VTimeEntry e = entry(v);
    unsigned i = v->heap_pos;

    for (; i > 1 && before(&e, &vt.heap[i / 2]); i /= 2) {
        heap_put(i, &vt.heap[i / 2]);
    }
    heap_put(i, &e);
}

static void heap_down(VTimeCPU *v)
{
    VTimeEntry e = entry(v);
    unsigned i = v->heap_pos;

    for (;;) {
        unsigned c = 2 * i;

        if (c > vt.n_heap) {
            break;
        }
        c += (c < vt.n_heap) & before(&vt.heap[c + 1], &vt.heap[c]);
        if (!before(&vt.heap[c], &e)) {
            break;
        }
        heap_put(i, &vt.heap[c]);
        i = c;
    }
    heap_put(i, &e);
}

/*
 * Move @v to its place.  Down as well as up: the vCPU whose slice is running
 * may sit too high meanwhile, and @v may have passed it.
 */
static void heap_fix(VTimeCPU *v)
{
    heap_up(v);
    heap_down(v);
}

static void heap_add(VTimeCPU *v)
{
    v->heap_pos = ++vt.n_heap;
    heap_fix(v);
}

static void heap_remove(VTimeCPU *v)
{
    unsigned i = v->heap_pos;
    VTimeCPU *last = vt.heap[vt.n_heap--].v;

    v->heap_pos = 0;
    if (last != v) {
        last->heap_pos = i;
        heap_fix(last);
    }
}

/* Smallest key of all but the vCPU at the top. */
static int64_t heap_second(void)
{
    int64_t k = VTIME_NEVER;

    if (vt.n_heap >= 2) {
        k = vt.heap[2].key;
    }
    if (vt.n_heap >= 3) {
        k = MIN(k, vt.heap[3].key);
    }
    return k;
}

/* ------------------------------------------------------------ the clocks */

static inline int64_t unaccounted(CPUState *cpu)
{
    return cpu->icount_budget -
           (cpu->neg.icount_decr.u16.low + cpu->icount_extra);
}

int64_t vtime_cpu_now(VTimeCPU *v)
{
    return v->clock + unaccounted(v->cpu) * vt.cfg.profile.ps_per_insn;
}

void vtime_account(CPUState *cpu)
{
    VTimeCPU *v = vtime_cpu(cpu);
    int64_t executed = unaccounted(cpu);

    cpu->icount_budget -= executed;
    v->insns += executed;
    v->clock += executed * vt.cfg.profile.ps_per_insn;
}

/* Let the running vCPU's slice end at @end at the latest. */
static void slice_shorten(int64_t end)
{
    CPUState *cpu;
    int64_t left, want;

    if (end >= vt.slice_end) {
        return;
    }
    vt.slice_end = end;
    if (!vt.running) {
        return;
    }
    cpu = vt.running->cpu;
    left = cpu->neg.icount_decr.u16.low + cpu->icount_extra;
    want = (end - vtime_cpu_now(vt.running)) / vt.cfg.profile.ps_per_insn;
    want = MAX(want, 0);
    if (want < left) {
        cpu->icount_budget -= left - want;
        cpu->neg.icount_decr.u16.low = MIN(want, 0xffff);
        cpu->icount_extra = want - cpu->neg.icount_decr.u16.low;
    }
}

void vtime_charge(VTimeCPU *v, int64_t ps)
{
    int64_t end = vt.slice_end;

    v->clock += ps;
    if (v == vt.running) {
        /* The same end is nearer now. */
        vt.slice_end = VTIME_NEVER;
        slice_shorten(end);
    }
}

int64_t vtime_pause_cost(void)
{
    return vt.timed ? vt.cfg.profile.pause : 0;
}

void vtime_charge_mmio(CPUState *cpu, bool is_write)
{
    VTimeCPU *v = vtime_cpu(cpu);
    int64_t ps = is_write ? vt.cfg.profile.mmio_write
                          : vt.cfg.profile.mmio_read;

    if (vt.timed && v == vt.running) {
        v->stats.mmio += ps;
        vtime_charge(v, ps);
    }
}

int64_t vtime_get_ps(void)
{
    if (current_cpu && vt.running && vt.running->cpu == current_cpu) {
        return vtime_cpu_now(vt.running);
    }
    return qatomic_read_i64(&vt.now);
}

int64_t vtime_get_ns(void)
{
    return vtime_get_ps() / 1000;
}

int64_t vtime_get_insns(void)
{
    int64_t sum = 0;

    if (current_cpu && vt.running && vt.running->cpu == current_cpu) {
        return vt.running->insns + unaccounted(current_cpu);
    }
    for (unsigned i = 0; i < vtime_n_cpus; i++) {
        sum += vtime_cpus[i] ? vtime_cpus[i]->insns : 0;
    }
    return sum;
}

/* @ns after @ps; some timers are armed for the end of time. */
static int64_t in_ns(int64_t ps, int64_t ns)
{
    return ns > (VTIME_NEVER - ps) / 1000 ? VTIME_NEVER : ps + ns * 1000;
}

/* -------------------------------------------- sleeping, waking, parking */

/* @v's key changed: to its place, and before it the running slice ends. */
static void requeue(VTimeCPU *v)
{
    int64_t key = entry(v).key;

    heap_fix(v);
    if (v != vt.current) {
        vt.next_min = MIN(vt.next_min, key);
        slice_shorten(key + vt.quantum);
    }
}

/* Put @v among the runnable, not before @when. */
static void wake_idle(VTimeCPU *v, int64_t when)
{
    if (when > v->clock) {
        v->stats.idle += when - v->clock;
        v->clock = when;
    }
    heap_add(v);
    vt.next_min = MIN(vt.next_min, v->clock);
    slice_shorten(v->clock + vt.quantum);
}

void vtime_unpark(VTimeCPU *v, int64_t when)
{
    if (!v->parked) {
        return;
    }
    when = MAX(when, v->clock);
    trace_vtime_unpark(v->cpu->cpu_index, when, when - v->clock);
    v->stats.parked[v->park_cause] += when - v->clock;
    v->clock = when;
    v->parked = false;
    v->event = false;
    vtime_lines_remove(v);
    requeue(v);
}

void vtime_park(VTimeCPU *v, VTimeParkCause cause)
{
    vtime_account(v->cpu);
    v->parked = true;
    v->park_cause = cause;
    v->wake = v->clock + vt.cfg.park_bound;
    v->stats.parks++;
    vtime_lines_add(v);
    trace_vtime_park(v->cpu->cpu_index, v->clock, cause,
                     v->n_lines ? v->lines[0] : 0);
}

void vtime_stall(VTimeCPU *v, int64_t wake)
{
    v->stalled = true;
    v->wake = wake;
}

void vtime_stall_until(VTimeCPU *v, int64_t wake)
{
    v->wake = wake;
    requeue(v);
}

int64_t vtime_stall_end(VTimeCPU *v, int64_t when)
{
    int64_t stalled = MAX(when - v->clock, 0);

    v->stats.line_wait += stalled;
    v->clock += stalled;
    v->stalled = false;
    requeue(v);
    return stalled;
}

bool vtime_irq_held(CPUState *cpu)
{
    VTimeCPU *v = vtime_cpu(cpu);

    if (v->irq_due <= vtime_cpu_now(v)) {
        v->irq_due = VTIME_NEVER;
        return false;
    }
    return v->irq_due != VTIME_NEVER;
}

/*
 * The one place where interrupts of both architectures are raised.  From
 * another vCPU or a device they arrive later, by the profile; the vCPU's own
 * arrive at once.
 */
static void vtime_handle_interrupt(CPUState *cpu, int mask)
{
    VTimeCPU *v = vtime_cpu(cpu);
    int old_mask = cpu->interrupt_request;
    int64_t due;

    g_assert(bql_locked());
    cpu->interrupt_request |= mask;

    if (vt.running == v && qemu_cpu_is_self(cpu)) {
        v->irq_due = VTIME_NEVER;
        qatomic_set(&cpu->neg.icount_decr.u16.high, -1);
        return;
    }
    if (!vtime_in_thread()) {
        qemu_cpu_kick(cpu);
        return;
    }

    if (vt.running) {
        due = vtime_cpu_now(vt.running);
        due += vt.timed ? vt.cfg.profile.ipi : 0;
    } else {
        due = vt.now;
        due += vt.timed ? vt.cfg.profile.irq : 0;
    }
    v->irq_due = old_mask ? MIN(v->irq_due, due) : due;
    trace_vtime_interrupt(cpu->cpu_index, mask, due);
    if (!v->heap_pos) {
        if (cpu_has_work(cpu)) {
            wake_idle(v, due);
        }
    } else if (v->parked) {
        vtime_unpark(v, due);
    } else if (v == vt.current) {
        slice_shorten(due);
    }
}

/*
 * Called for @cpu from any thread: it has work queued, must stop, or is to be
 * looked at.  From the vCPU thread the effect is part of the simulation; from
 * elsewhere it ends the host's share of a slice, never the slice.
 */
static void vtime_kick_vcpu(CPUState *cpu)
{
    if (vtime_in_thread()) {
        VTimeCPU *v = vtime_cpu(cpu);

        v->work = true;
        vt.work = true;
        if (vt.running == v) {
            cpu_exit(cpu);
        }
    } else {
        VTimeCPU *v;

        qatomic_set_mb(&vt.kicked, true);
        v = qatomic_read(&vt.running);
        if (v) {
            cpu_exit(v->cpu);
        }
    }
}

bool vtime_in_thread(void)
{
    return vt.thread && qemu_thread_is_self(vt.thread);
}

void vtime_wake_pollers(void)
{
    if (vt.thread) {
        qatomic_set(&vt.wake_pollers, true);
        vtime_kick_vcpu(first_cpu);
    }
}

void vtime_timers_changed(void)
{
    if (!vtime_in_thread()) {
        if (vt.thread) {
            vtime_kick_vcpu(first_cpu);
            qemu_cond_broadcast(first_cpu->halt_cond);
        }
        return;
    }
    vt.deadline_stale = true;
    if (vt.running) {
        int64_t ns = qemu_clock_deadline_ns_all(QEMU_CLOCK_VIRTUAL,
                                                QEMU_TIMER_ATTR_ALL);
        if (ns >= 0) {
            slice_shorten(in_ns(vtime_cpu_now(vt.running), ns));
        }
    }
}

void vtime_freeze(void)
{
    if (vtime_in_thread()) {
        vt.frozen = true;
        if (vt.running) {
            cpu_exit(vt.running->cpu);
        }
    }
}

void vtime_checkpoint(void)
{
    int64_t now;

    if (!vtime_on) {
        return;
    }
    now = vtime_get_ps();
    for (unsigned i = 0; i < vtime_n_cpus; i++) {
        VTimeCPU *v = vtime_cpus[i];

        if (v) {
            vtime_unpark(v, now);
            vtime_poll_forget(v);
        }
    }
    slice_shorten(now);
}

void vtime_bh_scheduled(void)
{
    if (vtime_in_thread()) {
        vt.bh = true;
        if (vt.running) {
            cpu_exit(vt.running->cpu);
        }
    }
}

/* ------------------------------------------------ hooks of the TCG core */

void vtime_budget_expired(CPUState *cpu, int tb_insns)
{
    VTimeCPU *v = vtime_cpu(cpu);

    vtime_account(cpu);
    if (cpu->icount_budget > 0xffff || cpu->icount_budget >= tb_insns) {
        /* Only the 16-bit decrementer ran out. */
        cpu->neg.icount_decr.u16.low = MIN(cpu->icount_budget, 0xffff);
        cpu->icount_extra = cpu->icount_budget - cpu->neg.icount_decr.u16.low;
    } else if (v->insns == v->slice_insns) {
        /* A slice makes progress, by one block if need be. */
        cpu->icount_budget = tb_insns;
        cpu->neg.icount_decr.u16.low = tb_insns;
        cpu->icount_extra = 0;
    } else {
        /* End at the block boundary; the clock carries the rest. */
        cpu->icount_budget = 0;
        cpu->neg.icount_decr.u16.low = 0;
        cpu->icount_extra = 0;
        vt.current = NULL;
    }
}

void vtime_order(CPUState *cpu, uintptr_t ra)
{
    VTimeCPU *v = vtime_cpu(cpu);
    int64_t start;

    if (v != vt.running) {
        return;
    }
    if (v->poll == POLL_TRACE) {
        /* It waits for a clock or device (udelay, say), not for memory. */
        v->trace_impure = true;
    }
    if (v->yielded) {
        /* It is this vCPU's turn, however little time is left of it. */
        v->yielded = false;
        return;
    }
    start = vtime_cpu_now(v) - vt.cfg.profile.ps_per_insn;
    if (start > vt.next_min) {
        v->yielded = true;
        vt.current = NULL;
        cpu->exception_index = EXCP_YIELD;
        cpu_loop_exit_restore(cpu, ra);
    }
}

int64_t vtime_ps_per_insn(void)
{
    return vt.cfg.profile.ps_per_insn;
}

bool vtime_is_ahead(VTimeCPU *v, int64_t when)
{
    return v == vt.running && when > vt.next_min;
}

void vtime_give_way(CPUState *cpu, uintptr_t ra)
{
    vt.current = NULL;
    cpu->exception_index = EXCP_YIELD;
    cpu_loop_exit_restore(cpu, ra);
}

/* --------------------------------------------------------- the scheduler */

static int64_t next_deadline(void)
{
    int64_t ns = qemu_clock_deadline_ns_all(QEMU_CLOCK_VIRTUAL,
                                            QEMU_TIMER_ATTR_ALL);

    if (ns < 0) {
        return VTIME_NEVER;
    }
    return in_ns(vt.now / 1000 * 1000, ns);
}

static void advance(int64_t to)
{
    if (to > vt.now) {
        qatomic_set_i64(&vt.now, to);
    }
}

/* Called with the BQL, outside of any slice. */
static void run_timers(void)
{
    CPUState *saved = current_cpu;

    current_cpu = NULL;
    qemu_clock_notify(QEMU_CLOCK_VIRTUAL);
    qemu_clock_run_timers(QEMU_CLOCK_VIRTUAL);
    current_cpu = saved;
    vt.deadline_stale = true;
}

/*
 * Work that vCPUs queued for each other (TLB flushes, power on).  It runs
 * when the slice that queued it ends.
 */
static void run_queued_work(void)
{
    vt.work = false;
    for (unsigned i = 0; i < vtime_n_cpus; i++) {
        VTimeCPU *v = vtime_cpus[i];

        if (!v || !v->work) {
            continue;
        }
        v->work = false;
        current_cpu = v->cpu;
        process_queued_cpu_work(v->cpu);
        if (!v->heap_pos && !cpu_thread_is_idle(v->cpu)) {
            wake_idle(v, vt.current ? vt.current->clock : vt.now);
        }
    }
}

/* Another thread wants something: stop, resume, synchronous work. */
static void handle_kick(void)
{
    bool stopped = true;
    CPUState *cpu;

    qatomic_set_mb(&vt.kicked, false);
    vt.deadline_stale = true;
    if (qatomic_xchg(&vt.wake_pollers, false)) {
        CPU_FOREACH(cpu) {
            if (vtime_cpu(cpu)) {
                vtime_unpark(vtime_cpu(cpu), vt.now);
            }
        }
    }
    CPU_FOREACH(cpu) {
        VTimeCPU *v = vtime_cpu(cpu);

        if (!v) {
            continue;
        }
        current_cpu = cpu;
        qemu_wait_io_event_common(cpu);
        if (!v->heap_pos && cpu_can_run(cpu) && !cpu_thread_is_idle(cpu)) {
            wake_idle(v, vt.now);
        }
        stopped &= cpu->stopped;
    }
    vt.frozen &= !stopped;
}

static void flush_for_watch(void)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        tlb_flush(cpu);
    }
}

/*
 * Everything that needs the BQL between slices.  Returns once a slice can
 * run.
 */
static void between_slices(void)
{
    for (;;) {
        if (qatomic_read(&vt.kicked)) {
            handle_kick();
        }
        if (vt.work) {
            run_queued_work();
        }
        if (vt.bh) {
            vt.bh = false;
            current_cpu = NULL;
            aio_bh_poll(qemu_get_aio_context());
        }
        if (vt.frozen || !runstate_is_running() || first_cpu->stopped) {
            qemu_cond_wait_bql(first_cpu->halt_cond);
            qatomic_set(&vt.kicked, true);
            continue;
        }
        if (vt.deadline_stale) {
            vt.deadline_stale = false;
            vt.deadline = next_deadline();
        }
        if (vt.n_heap && !vt.current) {
            advance(MIN(vt.heap[1].key, vt.deadline));
        }
        if (vt.deadline <= vt.now) {
            run_timers();
            continue;
        }
        if (vt.n_heap) {
            return;
        }
        /* All idle: jump, or wait for the outside world. */
        if (vt.deadline != VTIME_NEVER) {
            advance(vt.deadline);
            continue;
        }
        qemu_cond_wait_bql(first_cpu->halt_cond);
        vt.deadline_stale = true;
        qatomic_set(&vt.kicked, true);
    }
}

static inline bool bql_needed(void)
{
    return unlikely(qatomic_read(&vt.kicked) || vt.work || vt.bh ||
                    vt.frozen || vt.deadline_stale || !vt.n_heap ||
                    (!vt.current && vt.heap[1].key >= vt.deadline));
}

/* Whole instructions in @ps.  Dividing 32 bits takes half the time. */
static inline int64_t in_insns(int64_t ps)
{
    if ((uint64_t)ps <= UINT32_MAX) {
        return (uint32_t)ps / (uint32_t)vt.cfg.profile.ps_per_insn;
    }
    return ps / vt.cfg.profile.ps_per_insn;
}

/* Run one slice of @v; returns cpu_exec()'s verdict. */
static int run_slice(VTimeCPU *v)
{
    CPUState *cpu = v->cpu;
    int64_t budget = in_insns(vt.slice_end - v->clock);
    int r;

    budget = MIN(MAX(budget, 1), MAX_SLICE);
    cpu->icount_budget = budget;
    cpu->neg.icount_decr.u16.low = MIN(budget, 0xffff);
    cpu->icount_extra = budget - cpu->neg.icount_decr.u16.low;
    v->slice_insns = v->insns;

    current_cpu = cpu;
    qatomic_set(&vt.running, v);
    /*
     * No barrier: a kick at this very moment may see no vCPU running while
     * the caller's loop did not see the kick.  It is seen after the slice,
     * hence MAX_SLICE.
     * Not tcg_cpu_exec(): exclusive work happens in this thread or never.
     */
    r = cpu_exec(cpu);
    vtime_account(cpu);
    qatomic_set(&vt.running, NULL);

    cpu->neg.icount_decr.u16.low = 0;
    cpu->icount_extra = 0;
    cpu->icount_budget = 0;
    return r;
}

/* Choose who runs and how long, if nobody's slice was interrupted. */
static VTimeCPU *pick(void)
{
    VTimeCPU *v = vt.current;

    if (v && v->heap_pos) {
        return v;
    }
    v = vt.heap[1].v;
    if (v->parked) {
        /* The bound passed. */
        vtime_unpark(v, v->wake);
        return NULL;
    }
    if (v->stalled) {
        coherence_turn(v->cpu, v->wake);
        return NULL;
    }
    advance(v->clock);
    vt.current = v;
    vt.next_min = heap_second();
    vt.slice_end = vt.next_min == VTIME_NEVER ? VTIME_NEVER
                                              : vt.next_min + vt.quantum;
    vt.slice_end = MIN(vt.slice_end, vt.deadline);
    if (v->irq_due > v->clock) {
        vt.slice_end = MIN(vt.slice_end, v->irq_due);
    }
    v->stats.slices++;
    return v;
}

static void run_slices(void)
{
    /* Once, not in each slice. */
    RCU_READ_LOCK_GUARD();

    while (!bql_needed()) {
        VTimeCPU *v = pick();
        int r;

        if (!v) {
            continue;
        }
        r = run_slice(v);

        if (r == EXCP_ATOMIC) {
            cpu_exec_step_atomic(v->cpu);
            v->insns++;
            v->clock += vt.cfg.profile.ps_per_insn;
        } else if (r == EXCP_DEBUG) {
            bql_lock();
            cpu_handle_guest_debug(v->cpu);
            bql_unlock();
        }

        if (v->cpu->halted && !v->parked) {
            vt.current = NULL;
            if (!cpu_has_work(v->cpu) || !cpu_can_run(v->cpu)) {
                heap_remove(v);
                if (unlikely(vtime_watch_flush_needed())) {
                    flush_for_watch();
                }
                continue;
            }
            /* The interrupt is on its way. */
            if (v->irq_due != VTIME_NEVER && v->irq_due > v->clock) {
                v->stats.idle += v->irq_due - v->clock;
                v->clock = v->irq_due;
            }
        }
        if (v->clock >= vt.slice_end || v->parked || v->stalled) {
            vt.current = NULL;
        }
        heap_down(v);
        if (unlikely(vtime_watch_flush_needed())) {
            flush_for_watch();
        }
    }
}

static void *vtime_thread_fn(void *arg)
{
    CPUState *cpu = arg;

    rcu_register_thread();
    tcg_register_thread();

    bql_lock();
    qemu_thread_get_self(cpu->thread);
    vt.thread = cpu->thread;
    cpu->thread_id = qemu_get_thread_id();
    cpu->neg.can_do_io = true;
    cpu_thread_signal_created(cpu);
    qemu_guest_random_seed_thread_part2(cpu->random_seed);

    /* Wait for the machine to start. */
    while (first_cpu->stopped) {
        qemu_cond_wait_bql(first_cpu->halt_cond);
        CPU_FOREACH(cpu) {
            current_cpu = cpu;
            qemu_wait_io_event_common(cpu);
        }
    }
    qatomic_set(&vt.kicked, true);
    vt.deadline_stale = true;

    for (;;) {
        between_slices();
        bql_unlock();
        run_slices();
        bql_lock();
    }
    g_assert_not_reached();
}

static void vtime_add_cpu(CPUState *cpu)
{
    VTimeCPU *v = g_new0(VTimeCPU, 1);

    v->cpu = cpu;
    v->clock = qatomic_read_i64(&vt.now);
    v->irq_due = VTIME_NEVER;
    vmstate_register(NULL, cpu->cpu_index, &vmstate_vtime_cpu, v);
    qatomic_store_release(&vtime_cpus[cpu->cpu_index], v);
}

static void vtime_start_vcpu_thread(CPUState *cpu)
{
    static QemuCond *halt_cond;
    static QemuThread *thread;

    tcg_cpu_init_cflags(cpu, false);
    vtime_add_cpu(cpu);

    if (!thread) {
        thread = cpu->thread;
        halt_cond = cpu->halt_cond;
        qemu_thread_create(cpu->thread, "vtime", vtime_thread_fn, cpu,
                           QEMU_THREAD_JOINABLE);
        return;
    }
    /* All vCPUs share the thread. */
    g_free(cpu->thread);
    qemu_cond_destroy(cpu->halt_cond);
    g_free(cpu->halt_cond);
    cpu->thread = thread;
    cpu->halt_cond = halt_cond;
    cpu->thread_id = first_cpu->thread_id;
    cpu->neg.can_do_io = true;
    cpu->created = true;
}

/* ------------------------------------------------------- modes and regions */

static int64_t start_offset(int cpu_index)
{
    /* Any seed gives unrelated offsets. */
    return splitmix64_mix(vt.cfg.jitter + SPLITMIX64_STEP * (cpu_index + 1)) %
           (1000 * 1000);
}

/* Bring the clock of an idle or parked vCPU up to @now, as it waited. */
static void settle(VTimeCPU *v, int64_t now)
{
    if (now <= v->clock || v == vt.running) {
        return;
    }
    if (v->parked) {
        v->stats.parked[v->park_cause] += now - v->clock;
        v->clock = now;
    } else if (v->stalled) {
        v->stats.line_wait += now - v->clock;
        v->clock = now;
    } else if (!v->heap_pos) {
        v->stats.idle += now - v->clock;
        v->clock = now;
    }
}

void vtime_region_begin(void)
{
    int64_t now;

    if (!vtime_on) {
        return;
    }
    now = vtime_get_ps();
    vt.timed = true;
    vt.quantum = vt.cfg.quantum;
    for (unsigned i = 0; i < vtime_n_cpus; i++) {
        VTimeCPU *v = vtime_cpus[i];

        if (!v) {
            continue;
        }
        settle(v, now);
        memset(&v->stats, 0, sizeof(v->stats));
        if (v == vt.running) {
            vtime_account(v->cpu);
        }
        v->begin = v->clock;
        v->begin_insns = v->insns;
        if (vt.cfg.jitter && !v->parked) {
            int64_t offset = start_offset(i);

            v->stats.jitter += offset;
            v->clock += offset;
            if (v->heap_pos) {
                heap_down(v);
            }
        }
    }
    slice_shorten(now);
    coherence_begin();
    trace_vtime_region(true, now);
}

void vtime_region_end(void)
{
    int64_t now;

    if (!vtime_on) {
        return;
    }
    now = vtime_get_ps();
    for (unsigned i = 0; i < vtime_n_cpus; i++) {
        VTimeCPU *v = vtime_cpus[i];

        if (!v) {
            continue;
        }
        settle(v, now);
        if (v == vt.running) {
            vtime_account(v->cpu);
        }
        v->stats.insns = v->insns - v->begin_insns;
        v->stats.total = v->clock - v->begin;
        v->stats.exec = v->stats.insns * vt.cfg.profile.ps_per_insn;
    }
    vt.timed = false;
    vt.quantum = vt.cfg.boot_quantum;
    coherence_end();
    trace_vtime_region(false, now);
}

bool vtime_region_stats(int cpu_index, VTimeStats *stats)
{
    if (!vtime_on || cpu_index < 0 || cpu_index >= vtime_n_cpus ||
        !vtime_cpus[cpu_index]) {
        return false;
    }
    *stats = vtime_cpus[cpu_index]->stats;
    return true;
}

/* ------------------------------------------------------------- migration */

/*
 * Parked vCPUs are saved as running: they look at what they polled once
 * more.  So are stalled ones, which access their line anew.  Idle ones are
 * found idle again.
 */
static int vtime_cpu_pre_load(void *opaque)
{
    VTimeCPU *v = opaque;

    if (v->parked) {
        v->parked = false;
        vtime_lines_remove(v);
    }
    if (v->stalled) {
        coherence_end_stall(v->cpu, v->clock);
    }
    vtime_poll_forget(v);
    if (v->heap_pos) {
        heap_remove(v);
    }
    return 0;
}

static const VMStateDescription vmstate_vtime_cpu = {
    .name = "vtime-cpu",
    .version_id = 1,
    .minimum_version_id = 1,
    .pre_load = vtime_cpu_pre_load,
    .fields = (const VMStateField[]) {
        VMSTATE_INT64(clock, VTimeCPU),
        VMSTATE_INT64(irq_due, VTimeCPU),
        VMSTATE_BOOL(event, VTimeCPU),
        VMSTATE_UINT64(insns, VTimeCPU),
        VMSTATE_INT64(begin, VTimeCPU),
        VMSTATE_UINT64(begin_insns, VTimeCPU),
        VMSTATE_INT64(stats.pause, VTimeCPU),
        VMSTATE_INT64(stats.mmio, VTimeCPU),
        VMSTATE_INT64(stats.line_wait, VTimeCPU),
        VMSTATE_INT64(stats.line_transfer, VTimeCPU),
        VMSTATE_INT64(stats.atomic, VTimeCPU),
        VMSTATE_INT64_ARRAY(stats.parked, VTimeCPU, VTIME_PARK__MAX),
        VMSTATE_INT64(stats.idle, VTimeCPU),
        VMSTATE_INT64(stats.jitter, VTimeCPU),
        VMSTATE_UINT64(stats.slices, VTimeCPU),
        VMSTATE_UINT64(stats.parks, VTimeCPU),
        VMSTATE_END_OF_LIST()
    },
};

static int vtime_post_load(void *opaque, int version_id)
{
    vt.quantum = vt.timed ? vt.cfg.quantum : vt.cfg.boot_quantum;
    vt.current = NULL;
    vt.deadline_stale = true;
    return vt.now >= 0 ? 0 : -EINVAL;
}

static const VMStateDescription vmstate_vtime = {
    .name = "vtime",
    .version_id = 1,
    .minimum_version_id = 1,
    .post_load = vtime_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_INT64(now, VTime),
        VMSTATE_BOOL(timed, VTime),
        VMSTATE_END_OF_LIST()
    },
};

/* ---------------------------------------------------------------- set-up */

void vtime_start(const VTimeConfig *cfg, unsigned max_cpus)
{
    /* All of it now: vCPUs may be plugged while others run. */
    vtime_cpus = g_new0(VTimeCPU *, max_cpus);
    vtime_n_cpus = max_cpus;
    /* From 1, and heap_down() looks at the one after the last. */
    vt.heap = g_new0(VTimeEntry, max_cpus + 2);
    vt.cfg = *cfg;
    vt.quantum = cfg->boot_quantum;
    vt.deadline = VTIME_NEVER;
    vt.slice_end = VTIME_NEVER;
    vt.next_min = VTIME_NEVER;
    vtime_park_init();
    /* Before the devices, some of which read the clock when they load. */
    vmstate_register(NULL, 0, &vmstate_vtime, &vt);
    /* Instructions are counted as icount counts them, time is not. */
    use_icount = ICOUNT_PRECISE;
    vtime_on = true;
}

void vtime_accel_ops_init(AccelOpsClass *ops)
{
    ops->create_vcpu_thread = vtime_start_vcpu_thread;
    ops->kick_vcpu_thread = vtime_kick_vcpu;
    ops->handle_interrupt = vtime_handle_interrupt;
    ops->get_virtual_clock = vtime_get_ns;
    ops->get_elapsed_ticks = vtime_get_ns;
}
