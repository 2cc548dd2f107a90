/*
 * Cache lines that many vCPUs use: statistics
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "coherence-internal.h"

/* Places in the code that are kept apart; the last one is for all others. */
#define MAX_SITES (1 << 16)
/* The most expensive of each that are printed. */
#define SHOWN_LINES 64
#define SHOWN_PAGES 1024
#define SHOWN_SITES 256

static GHashTable *sites;       /* a set of CoherenceSite */
static CoherenceSite other_sites;

static guint site_hash(gconstpointer key)
{
    const CoherenceSite *s = key;
    uint64_t h = (s->line >> COHERENCE_LINE_BITS) * 0x9e3779b97f4a7c15ULL;

    h = (h ^ s->pc) * 0xbf58476d1ce4e5b9ULL;
    return (h >> 32) + s->what;
}

static gboolean site_equal(gconstpointer a, gconstpointer b)
{
    const CoherenceSite *x = a, *y = b;

    return x->line == y->line && x->pc == y->pc && x->what == y->what;
}

void coherence_sites_reset(void)
{
    if (sites) {
        g_hash_table_remove_all(sites);
    } else {
        sites = g_hash_table_new_full(site_hash, site_equal, g_free, NULL);
    }
    memset(&other_sites, 0, sizeof(other_sites));
}

CoherenceSite *coherence_site(ram_addr_t line, vaddr pc, CoherenceAccess what)
{
    CoherenceSite key = { .line = line, .pc = pc, .what = what };
    CoherenceSite *s = g_hash_table_lookup(sites, &key);

    if (!s) {
        if (g_hash_table_size(sites) == MAX_SITES) {
            return &other_sites;
        }
        s = g_memdup2(&key, sizeof(key));
        g_hash_table_add(sites, s);
    }
    return s;
}

static int64_t cost(const CoherenceLineStats *st)
{
    return st->wait + st->transfer;
}

static gint compare_cost(const CoherenceLineStats *a,
                         const CoherenceLineStats *b)
{
    return cost(a) == cost(b) ? 0 : cost(a) > cost(b) ? -1 : 1;
}

/* The most expensive first; the order is total, so that runs are equal. */
static gint compare_lines(gconstpointer a, gconstpointer b)
{
    const CoherenceTracked *x = *(CoherenceTracked *const *)a;
    const CoherenceTracked *y = *(CoherenceTracked *const *)b;

    return compare_cost(&x->line.stats, &y->line.stats) ?:
           (x->ram < y->ram ? -1 : x->ram > y->ram);
}

static gint compare_sites(gconstpointer a, gconstpointer b)
{
    const CoherenceSite *x = *(CoherenceSite *const *)a;
    const CoherenceSite *y = *(CoherenceSite *const *)b;

    return compare_cost(&x->stats, &y->stats) ?:
           (x->line < y->line ? -1 : x->line > y->line) ?:
           (x->pc < y->pc ? -1 : x->pc > y->pc) ?:
           (int)x->what - (int)y->what;
}

static void add_stats(GString *out, const CoherenceLineStats *st)
{
    g_string_append_printf(out, "\"transfers\":%" PRIu64 ",\"wait_ps\":%"
        PRId64 ",\"transfer_ps\":%" PRId64 ",\"max_wait_ps\":%" PRId64
        ",\"cas\":%" PRIu64 ",\"cas_ok\":%" PRIu64 "}\n",
        st->transfers, st->wait, st->transfer, st->max_wait, st->cas,
        st->cas_ok);
}

static void add_to(CoherenceLineStats *sum, const CoherenceLineStats *st)
{
    sum->transfers += st->transfers;
    sum->wait += st->wait;
    sum->transfer += st->transfer;
    sum->max_wait = MAX(sum->max_wait, st->max_wait);
    sum->cas += st->cas;
    sum->cas_ok += st->cas_ok;
}

typedef struct Collected {
    GPtrArray *lines;
    CoherenceLineStats sum;
} Collected;

static void collect(CoherenceTracked *t, void *opaque)
{
    Collected *c = opaque;
    const CoherenceLineStats *st = &t->line.stats;

    if (!st->transfers) {
        return;
    }
    add_to(&c->sum, st);
    g_ptr_array_add(c->lines, t);
}

/* What the lines of a page that are not shown themselves add up to. */
typedef struct PageSum {
    ram_addr_t ram;
    vaddr addr;
    unsigned lines;
    CoherenceLineStats stats;
} PageSum;

static gint compare_ram(gconstpointer a, gconstpointer b)
{
    const CoherenceTracked *x = *(CoherenceTracked *const *)a;
    const CoherenceTracked *y = *(CoherenceTracked *const *)b;

    return x->ram < y->ram ? -1 : x->ram > y->ram;
}

static gint compare_pages(gconstpointer a, gconstpointer b)
{
    const PageSum *x = a, *y = b;

    return compare_cost(&x->stats, &y->stats) ?:
           (x->ram < y->ram ? -1 : x->ram > y->ram);
}

/*
 * A ring's lines are used in turn, so that each waits for little and the ring
 * for much.
 */
static void report_pages(GString *out, uint32_t region, GPtrArray *lines)
{
    g_autoptr(GArray) pages = g_array_new(false, false, sizeof(PageSum));
    g_autoptr(GPtrArray) rest = g_ptr_array_new();
    ram_addr_t mask = ~(ram_addr_t)MAKE_64BIT_MASK(0, COHERENCE_PAGE_BITS);

    for (unsigned i = SHOWN_LINES; i < lines->len; i++) {
        g_ptr_array_add(rest, lines->pdata[i]);
    }
    g_ptr_array_sort(rest, compare_ram);
    for (unsigned i = 0; i < rest->len; i++) {
        CoherenceTracked *t = rest->pdata[i];
        PageSum *last = pages->len ?
            &g_array_index(pages, PageSum, pages->len - 1) : NULL;

        if (!last || last->ram != (t->ram & mask)) {
            PageSum new = { .ram = t->ram & mask, .addr = t->addr & mask };

            g_array_append_val(pages, new);
            last = &g_array_index(pages, PageSum, pages->len - 1);
        }
        last->lines++;
        add_to(&last->stats, &t->line.stats);
    }
    g_array_sort(pages, compare_pages);
    for (unsigned i = 0; i < MIN(pages->len, SHOWN_PAGES); i++) {
        PageSum *p = &g_array_index(pages, PageSum, i);

        g_string_append_printf(out, "{\"iommulab\":\"page\",\"region\":%"
            PRIu32 ",\"ram\":\"0x%" PRIx64 "\",\"addr\":\"0x%" PRIx64
            "\",\"lines\":%u,", region, (uint64_t)p->ram, (uint64_t)p->addr,
            p->lines);
        add_stats(out, &p->stats);
    }
}

char *coherence_report(uint32_t region)
{
    static const char *const names[] = { "load", "store", "atomic" };
    g_autoptr(GPtrArray) lines = g_ptr_array_new();
    g_autoptr(GPtrArray) places = g_ptr_array_new();
    Collected c = { .lines = lines };
    CoherencePageStats ps;
    GHashTableIter iter;
    gpointer key;
    GString *out;

    if (!sites) {
        return NULL;
    }
    out = g_string_new(NULL);
    coherence_foreach_line(collect, &c);
    g_ptr_array_sort(lines, compare_lines);
    coherence_page_stats(&ps);
    g_string_append_printf(out, "{\"iommulab\":\"coherence\",\"region\":%"
        PRIu32 ",\"pages\":%" PRIu64 ",\"shared_pages\":%" PRIu64
        ",\"lines\":%" PRIu64 ",\"untracked\":%" PRIu64 ",\"sites\":%u,",
        region, ps.pages, ps.shared, ps.lines, ps.untracked,
        g_hash_table_size(sites));
    add_stats(out, &c.sum);

    for (unsigned i = 0; i < MIN(lines->len, SHOWN_LINES); i++) {
        CoherenceTracked *t = lines->pdata[i];
        CoherenceLine *l = &t->line;

        g_string_append_printf(out, "{\"iommulab\":\"line\",\"region\":%"
            PRIu32 ",\"ram\":\"0x%" PRIx64 "\",\"addr\":\"0x%" PRIx64
            "\",\"loads\":%" PRIu64 ",\"stores\":%" PRIu64
            ",\"atomics\":%" PRIu64 ",", region, (uint64_t)t->ram,
            (uint64_t)t->addr, l->stats.accesses[COHERENCE_LOAD],
            l->stats.accesses[COHERENCE_STORE],
            l->stats.accesses[COHERENCE_ATOMIC]);
        add_stats(out, &l->stats);
    }
    report_pages(out, region, lines);

    g_hash_table_iter_init(&iter, sites);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        g_ptr_array_add(places, key);
    }
    g_ptr_array_sort(places, compare_sites);
    for (unsigned i = 0; i < MIN(places->len, SHOWN_SITES); i++) {
        CoherenceSite *s = places->pdata[i];

        g_string_append_printf(out, "{\"iommulab\":\"site\",\"region\":%"
            PRIu32 ",\"ram\":\"0x%" PRIx64 "\",\"pc\":\"0x%" PRIx64
            "\",\"op\":\"%s\",", region, (uint64_t)s->line, (uint64_t)s->pc,
            names[s->what]);
        add_stats(out, &s->stats);
    }
    return g_string_free(out, false);
}
