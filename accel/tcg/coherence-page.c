/*
 * Cache lines that many vCPUs use: which pages are worth looking at
 *
 * Showing every access would make the guest several times slower, and most
 * pages have one user.  A page starts out private, at full speed.  When a
 * second vCPU's TLB gets it, stores to it are shown; the first store makes it
 * shared for the rest of the region: from then on all accesses are shown and
 * its lines are tracked.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "exec/cputlb.h"
#include "hw/core/cpu.h"
#include "coherence-internal.h"
#include "vtime-internal.h"

/*
 * About 200 MB at most.  What is beyond costs nothing, and is counted: a
 * guest cannot exhaust the host.
 */
#define MAX_LINES (1 << 20)
#define CACHE_SIZE 1024

#define SHOW_STORES BIT(COHERENCE_ACCESS_STORE)
#define SHOW_ALL (BIT(COHERENCE_ACCESS_LOAD) | BIT(COHERENCE_ACCESS_STORE))

typedef struct CoherencePage {
    ram_addr_t number;
    vaddr addr;                 /* where its users' TLBs have it */
    bool aliased;               /* or elsewhere as well */
    bool shared;
    unsigned n_users;
    uint64_t users[COHERENCE_MAX_CPUS / 64];
    CoherenceTracked **lines;   /* [COHERENCE_PAGE_LINES], once shared */
} CoherencePage;

static struct {
    CoherenceWatch watch;
    GHashTable *table;          /* page number -> CoherencePage */
    CoherencePage *cache[CACHE_SIZE];
    CoherencePageStats stats;
} pages;

static void page_free(gpointer opaque)
{
    CoherencePage *page = opaque;

    for (unsigned i = 0; page->lines && i < COHERENCE_PAGE_LINES; i++) {
        g_free(page->lines[i]);
    }
    g_free(page->lines);
    g_free(page);
}

void coherence_pages_init(CoherenceWatch watch)
{
    pages.watch = watch;
    pages.table = g_hash_table_new_full(NULL, NULL, NULL, page_free);
}

void coherence_pages_reset(void)
{
    g_hash_table_remove_all(pages.table);
    memset(pages.cache, 0, sizeof(pages.cache));
    memset(&pages.stats, 0, sizeof(pages.stats));
}

static CoherencePage *find(ram_addr_t ram)
{
    ram_addr_t number = ram >> COHERENCE_PAGE_BITS;
    CoherencePage **slot = &pages.cache[number % CACHE_SIZE];

    if (!*slot || (*slot)->number != number) {
        CoherencePage *page = g_hash_table_lookup(pages.table,
                                                  GSIZE_TO_POINTER(number));
        if (!page) {
            return NULL;
        }
        *slot = page;
    }
    return *slot;
}

static inline bool uses(const CoherencePage *page, int cpu)
{
    return page->users[cpu / 64] >> (cpu % 64) & 1;
}

static void flush_work(CPUState *cpu, run_on_cpu_data data)
{
    tlb_flush(cpu);
}

/*
 * The TLBs of the page's users, but for @filler's, do not show enough.  The
 * running vCPU may be in the middle of an access: of its TLB only single
 * entries can go now.
 */
static void forget(CoherencePage *page, CPUState *filler)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        if (cpu == filler || !uses(page, cpu->cpu_index)) {
            continue;
        }
        if (!page->aliased) {
            vtime_tlb_forget(cpu, page->addr);
        } else if (cpu == current_cpu) {
            vtime_tlb_forget(cpu, page->addr);
            async_run_on_cpu(cpu, flush_work, RUN_ON_CPU_NULL);
        } else {
            tlb_flush(cpu);
        }
    }
}

static void share(CoherencePage *page, CPUState *filler)
{
    page->shared = true;
    page->lines = g_new0(CoherenceTracked *, COHERENCE_PAGE_LINES);
    pages.stats.shared++;
    forget(page, filler);
}

unsigned coherence_page_use(CPUState *cpu, ram_addr_t ram, vaddr addr)
{
    CoherencePage *page = find(ram);

    addr &= ~(vaddr)MAKE_64BIT_MASK(0, COHERENCE_PAGE_BITS);
    if (!page) {
        page = g_new0(CoherencePage, 1);
        page->number = ram >> COHERENCE_PAGE_BITS;
        page->addr = addr;
        g_hash_table_insert(pages.table, GSIZE_TO_POINTER(page->number),
                            page);
        pages.stats.pages++;
    }
    page->aliased |= page->addr != addr;
    if (!uses(page, cpu->cpu_index)) {
        if (++page->n_users == 2 && !page->shared) {
            /* The first one's stores were not shown until now. */
            forget(page, NULL);
        }
        page->users[cpu->cpu_index / 64] |= BIT_ULL(cpu->cpu_index % 64);
    }
    if (pages.watch == COHERENCE_ALL && !page->shared) {
        share(page, cpu);
    }
    return page->shared ? SHOW_ALL : page->n_users > 1 ? SHOW_STORES : 0;
}

bool coherence_page_shown(ram_addr_t ram)
{
    CoherencePage *page = coherence_active() ? find(ram) : NULL;

    return page && page->shared;
}

void coherence_page_stored(CPUState *cpu, ram_addr_t ram)
{
    CoherencePage *page = find(ram);

    /* A device is one more user. */
    if (page && !page->shared && page->n_users > (cpu ? 1 : 0)) {
        share(page, NULL);
    }
}

CoherenceTracked *coherence_page_line(ram_addr_t ram, vaddr addr)
{
    CoherencePage *page = find(ram);
    CoherenceTracked **t;

    if (!page || !page->shared) {
        return NULL;
    }
    t = &page->lines[(ram >> COHERENCE_LINE_BITS) % COHERENCE_PAGE_LINES];
    if (!*t) {
        if (pages.stats.lines == MAX_LINES) {
            pages.stats.untracked++;
            return NULL;
        }
        pages.stats.lines++;
        *t = g_new0(CoherenceTracked, 1);
        coherence_line_init(&(*t)->line);
        (*t)->ram = ram & ~(ram_addr_t)MAKE_64BIT_MASK(0, COHERENCE_LINE_BITS);
        (*t)->addr = addr & ~(vaddr)MAKE_64BIT_MASK(0, COHERENCE_LINE_BITS);
    }
    return *t;
}

void coherence_foreach_line(CoherenceLineFn *fn, void *opaque)
{
    GHashTableIter iter;
    gpointer value;

    g_hash_table_iter_init(&iter, pages.table);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        CoherencePage *page = value;

        for (unsigned i = 0; page->lines && i < COHERENCE_PAGE_LINES; i++) {
            if (page->lines[i]) {
                fn(page->lines[i], opaque);
            }
        }
    }
}

void coherence_page_stats(CoherencePageStats *st)
{
    *st = pages.stats;
}
