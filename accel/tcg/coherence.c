/*
 * Cache lines that many vCPUs use: what the guest's accesses cost
 *
 * Ties the model of a line (coherence-line.c) and the filter of pages
 * (coherence-page.c) to the vCPUs' clocks.  An access that needs a line from
 * elsewhere happens in the order of its time: a vCPU that is ahead of the
 * others gives way first and executes the instruction later.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "exec/translation-block.h"
#include "hw/core/cpu.h"
#include "coherence-internal.h"
#include "vtime-internal.h"

/*
 * An owner's accesses do not need the line from elsewhere, but right after it
 * moved others are likely to want it too, and the owner must not run ahead of
 * them.
 */
#define QUIET 4

bool coherence_is_active;

typedef struct CoherenceCPU {
    uint64_t turn;              /* gave way at this instruction already */
    CoherenceTracked *stall;    /* waits, or waited last, for this line */
    int64_t stalled;            /* how long, until its turn */
    CoherenceTracked *excl;     /* line of the load exclusive */
    uint32_t excl_version;
    CoherenceTracked *cas;      /* of the last atomic access */
    CoherenceSite *cas_site;
} CoherenceCPU;

static struct {
    CoherenceWatch watch;
    CoherenceModel model;
    CoherenceCPU *cpus;
    uint64_t random;            /* state of the generator */
} coh;

void coherence_init(CoherenceWatch watch, const CoherenceProfile *p,
                    unsigned max_cpus)
{
    coh.watch = watch;
    if (watch == COHERENCE_OFF) {
        return;
    }
    coherence_model_init(&coh.model, p, max_cpus);
    coh.cpus = g_new0(CoherenceCPU, max_cpus);
    coherence_pages_init(watch);
}

/* Who is next must be random and the same in every run. */
static unsigned random_below(unsigned n)
{
    return splitmix64_mix(coh.random += SPLITMIX64_STEP) % n;
}

/* The vCPU with the @n-th of the bits set. */
static int nth_waiter(const CoherenceTracked *t, unsigned n)
{
    for (unsigned i = 0; i < ARRAY_SIZE(t->waiters); i++) {
        uint64_t left = t->waiters[i];
        unsigned here = ctpop64(left);

        if (n >= here) {
            n -= here;
            continue;
        }
        while (n--) {
            left &= left - 1;
        }
        return i * 64 + ctz64(left);
    }
    g_assert_not_reached();
}

static unsigned n_waiters(const CoherenceTracked *t)
{
    unsigned n = 0;

    for (unsigned i = 0; i < ARRAY_SIZE(t->waiters); i++) {
        n += ctpop64(t->waiters[i]);
    }
    return n;
}

void coherence_end_stall(CPUState *cpu, int64_t when)
{
    int index = cpu->cpu_index;
    CoherenceCPU *c = &coh.cpus[index];

    c->stall->waiters[index / 64] &= ~BIT_ULL(index % 64);
    c->stalled = vtime_stall_end(vtime_cpu(cpu), when);
}

/*
 * The running vCPU waits for a busy line.  The first to wait is called when
 * the line becomes free.
 */
static G_NORETURN void stall(CPUState *cpu, CoherenceTracked *t, uintptr_t ra)
{
    VTimeCPU *v = vtime_cpu(cpu);
    int index = cpu->cpu_index;

    vtime_stall(v, n_waiters(t) ? VTIME_NEVER - 1 : t->line.busy_until);
    t->waiters[index / 64] |= BIT_ULL(index % 64);
    coh.cpus[index].stall = t;
    vtime_give_way(cpu, ra);
}

void coherence_turn(CPUState *cpu, int64_t when)
{
    CoherenceTracked *t = coh.cpus[cpu->cpu_index].stall;
    int next;

    if (t->line.busy_until > when) {
        vtime_stall_until(vtime_cpu(cpu), t->line.busy_until);
        return;
    }
    next = nth_waiter(t, random_below(n_waiters(t)));
    coherence_end_stall(vtime_cpus[next]->cpu, when);
    if (n_waiters(t)) {
        /*
         * Have another one look right after the access that is next: the line
         * is busy then, unless an interrupt came in between.
         */
        if (next == cpu->cpu_index) {
            cpu = vtime_cpus[nth_waiter(t, 0)]->cpu;
        }
        vtime_stall_until(vtime_cpu(cpu), when + 1);
    }
}

static void end_all_stalls(void)
{
    for (unsigned i = 0; i < coh.model.n_cpus; i++) {
        if (vtime_cpus[i] && vtime_cpus[i]->stalled) {
            coherence_end_stall(vtime_cpus[i]->cpu, vtime_get_ps());
        }
    }
}

/* Blocks translated before do not call the atomic helpers, and vice versa. */
static void switch_blocks(bool on)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        if (on) {
            cpu->tcg_cflags |= CF_VTIME_ATOMIC;
        } else {
            cpu->tcg_cflags &= ~CF_VTIME_ATOMIC;
        }
    }
    if (current_cpu) {
        cpu_exit(current_cpu);
    }
    vtime_request_flush();
}

void coherence_begin(void)
{
    if (coh.watch == COHERENCE_OFF) {
        return;
    }
    end_all_stalls();
    coherence_pages_reset();
    coherence_sites_reset();
    coh.random = 0;
    memset(coh.cpus, 0, coh.model.n_cpus * sizeof(*coh.cpus));
    memset(coh.model.stores, 0, coh.model.n_cpus * sizeof(*coh.model.stores));
    coherence_is_active = true;
    switch_blocks(true);
}

void coherence_end(void)
{
    if (coherence_is_active) {
        end_all_stalls();
        coherence_is_active = false;
        switch_blocks(false);
    }
}

unsigned vtime_tlb_fill(CPUState *cpu, ram_addr_t ram, vaddr addr)
{
    unsigned shown = vtime_page_watched(ram) ? BIT(COHERENCE_ACCESS_STORE) : 0;

    if (coherence_active()) {
        shown |= coherence_page_use(cpu, ram, addr);
    }
    return shown;
}

/*
 * The time at the beginning of the instruction at @ra, and its program
 * counter; gives way if that is too far ahead.
 */
static int64_t arrive(CPUState *cpu, uintptr_t ra, vaddr *pc)
{
    VTimeCPU *v = vtime_cpu(cpu);
    CoherenceCPU *c = &coh.cpus[cpu->cpu_index];
    int64_t now = vtime_cpu_now(v);
    int left;

    *pc = 0;
    if (!vtime_unwind(cpu, ra, pc, &left)) {
        /* An exception is being delivered: it cannot be put off. */
        return now;
    }
    now -= left * vtime_ps_per_insn();
    if (vtime_is_ahead(v, now - coh.model.profile.slack)) {
        uint64_t insn = vtime_get_insns() - left + 1;

        /* Once is enough: then it is this vCPU's turn. */
        if (c->turn != insn) {
            c->turn = insn;
            vtime_give_way(cpu, ra);
        }
    }
    return now;
}

/* Whether an access at @now, which misses, waits for its turn. */
static bool must_stall(const CoherenceTracked *t, CoherenceAccess what,
                       int64_t now)
{
    return coh.model.profile.random_order && t->line.busy_until > now &&
           (what != COHERENCE_ACCESS_STORE || !coh.model.profile.store_buffer);
}

/* When the access that now gets its turn, at @now, came. */
static int64_t arrival(CoherenceCPU *c, CoherenceTracked *t, int64_t now)
{
    int64_t stalled = c->stalled;

    c->stalled = 0;
    return c->stall == t && t->line.busy_until == now ? now - stalled : now;
}

static void access_line(CPUState *cpu, CoherenceTracked *t,
                        CoherenceAccess what, uintptr_t ra)
{
    VTimeCPU *v = vtime_cpu(cpu);
    CoherenceCPU *c = &coh.cpus[cpu->cpu_index];
    CoherenceSite *site = NULL;
    CoherenceCost cost;
    int64_t now, came;
    vaddr pc = 0;

    if (coherence_line_hit(&t->line, cpu->cpu_index, what) &&
        (t->line.owner != cpu->cpu_index || t->line.quiet >= QUIET)) {
        now = vtime_cpu_now(v);
    } else {
        now = arrive(cpu, ra, &pc);
        if (pc && must_stall(t, what, now) &&
            !coherence_line_hit(&t->line, cpu->cpu_index, what)) {
            stall(cpu, t, ra);
        }
    }
    came = arrival(c, t, now);
    cost = coherence_line_access(&coh.model, &t->line, cpu->cpu_index, what,
                                 came);
    if (cost.moved) {
        site = coherence_site(t->ram, pc, what);
        site->stats.transfers++;
        site->stats.wait += cost.line_wait;
        site->stats.transfer += cost.line_transfer;
        site->stats.max_wait = MAX(site->stats.max_wait, cost.line_wait);
    }
    if (what == COHERENCE_ACCESS_ATOMIC) {
        c->cas = t;
        c->cas_site = site;
    }
    /* What it was stalled for is accounted. */
    cost.wait -= MIN(cost.wait, now - came);
    v->stats.line_wait += cost.wait;
    v->stats.line_transfer += cost.transfer;
    v->stats.atomic += cost.atomic;
    if (cost.wait + cost.transfer + cost.atomic) {
        vtime_charge(v, cost.wait + cost.transfer + cost.atomic);
    }
}

static void access_lines(CPUState *cpu, ram_addr_t ram, vaddr addr,
                         unsigned size, CoherenceAccess what, uintptr_t ra)
{
    ram_addr_t mask = ~(ram_addr_t)MAKE_64BIT_MASK(0, COHERENCE_LINE_BITS);
    ram_addr_t last = (ram + size - 1) & mask;

    if (what == COHERENCE_ACCESS_ATOMIC) {
        coh.cpus[cpu->cpu_index].cas = NULL;
    }
    if (what != COHERENCE_ACCESS_LOAD) {
        coherence_page_stored(cpu, ram);
    }
    for (;;) {
        CoherenceTracked *t = coherence_page_line(ram, addr);

        if (t) {
            access_line(cpu, t, what, ra);
        }
        if ((ram & mask) >= last) {
            return;
        }
        addr += last - ram;
        ram = last;
    }
}

void vtime_ram_access(CPUState *cpu, ram_addr_t ram, vaddr addr,
                      unsigned size, CoherenceAccess what, uintptr_t ra)
{
    if (coherence_active()) {
        access_lines(cpu, ram, addr, size, what, ra);
    }
    if (what != COHERENCE_ACCESS_LOAD) {
        vtime_ram_written(ram, size);
    }
}

void coherence_cas_done(CPUState *cpu, bool success)
{
    CoherenceCPU *c = &coh.cpus[cpu->cpu_index];

    if (!c->cas) {
        return;
    }
    c->cas->line.stats.cas++;
    c->cas->line.stats.cas_ok += success;
    if (c->cas_site) {
        c->cas_site->stats.cas++;
        c->cas_site->stats.cas_ok += success;
    }
    c->cas = NULL;
    c->cas_site = NULL;
}

void coherence_load_exclusive(CPUState *cpu, vaddr addr)
{
    CoherenceCPU *c = &coh.cpus[cpu->cpu_index];
    ram_addr_t ram;

    c->excl = NULL;
    if (vtime_vaddr_to_ram(cpu, addr, &ram)) {
        c->excl = coherence_page_line(ram, addr);
        c->excl_version = c->excl ? c->excl->line.version : 0;
    }
}

bool coherence_store_exclusive(CPUState *cpu, vaddr addr, uintptr_t ra)
{
    CoherenceCPU *c = &coh.cpus[cpu->cpu_index];
    CoherenceTracked *t = c->excl;
    vaddr pc;

    if (!t) {
        return true;
    }
    if (!coherence_line_hit(&t->line, cpu->cpu_index, COHERENCE_STORE)) {
        /* Others who are behind may still take it. */
        int64_t now = arrive(cpu, ra, &pc);

        if (pc && must_stall(t, COHERENCE_ACCESS_ATOMIC, now)) {
            stall(cpu, t, ra);
        }
    }
    c->excl = NULL;
    if (t->line.version == c->excl_version) {
        return true;
    }
    t->line.stats.cas++;
    return false;
}

void vtime_device_wrote(ram_addr_t ram, uint64_t len)
{
    ram_addr_t end = ram + len;

    vtime_ram_written(ram, len);
    if (!coherence_active() || !vtime_in_thread()) {
        return;
    }
    for (ram &= ~(ram_addr_t)MAKE_64BIT_MASK(0, COHERENCE_LINE_BITS);
         ram < end; ram += 1 << COHERENCE_LINE_BITS) {
        CoherenceTracked *t;

        coherence_page_stored(NULL, ram);
        t = coherence_page_line(ram, ram);
        if (t) {
            coherence_line_device_write(&t->line, vtime_get_ps());
        }
    }
}
