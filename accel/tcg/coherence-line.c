/*
 * Cache lines that many vCPUs use: what an access costs
 *
 * One access at a time, as the line itself sees it: it starts when the line
 * is free, lasts as long as the way from the present owner, and the line is
 * busy meanwhile.  Without busy_until, contended lines are too fast by an
 * order of magnitude, however small the quantum.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "coherence-line.h"

static CoherenceDistance distance(const CoherenceProfile *p, int a, int b)
{
    if (a / p->per_core == b / p->per_core) {
        return COHERENCE_SAME_CORE;
    }
    if (a / p->per_cluster == b / p->per_cluster) {
        return COHERENCE_SAME_CLUSTER;
    }
    if (a / p->per_die == b / p->per_die) {
        return COHERENCE_SAME_DIE;
    }
    if (a / p->per_socket == b / p->per_socket) {
        return COHERENCE_SAME_SOCKET;
    }
    return COHERENCE_CROSS_SOCKET;
}

void coherence_model_init(CoherenceModel *m, const CoherenceProfile *p,
                          unsigned n_cpus)
{
    m->profile = *p;
    m->n_cpus = n_cpus;
    m->latency = g_new0(int64_t, n_cpus * n_cpus);
    m->stores = g_new0(CoherenceStores, n_cpus);
    for (unsigned a = 0; a < n_cpus; a++) {
        for (unsigned b = 0; b < n_cpus; b++) {
            if (a != b) {
                m->latency[a * n_cpus + b] = p->transfer[distance(p, a, b)];
            }
        }
    }
}

void coherence_model_destroy(CoherenceModel *m)
{
    g_free(m->latency);
    g_free(m->stores);
}

void coherence_line_init(CoherenceLine *line)
{
    memset(line, 0, sizeof(*line));
    line->owner = COHERENCE_NOBODY;
}

static inline bool shares(const CoherenceLine *line, int cpu)
{
    return line->sharers[cpu / 64] >> (cpu % 64) & 1;
}

static inline bool only_copy(const CoherenceLine *line, int cpu)
{
    for (unsigned i = 0; i < ARRAY_SIZE(line->sharers); i++) {
        if (line->sharers[i] != (i == cpu / 64 ? BIT_ULL(cpu % 64) : 0)) {
            return false;
        }
    }
    return line->owner == cpu;
}

bool coherence_line_hit(const CoherenceLine *line, int cpu, CoherenceOp op)
{
    return op == COHERENCE_LOAD ? shares(line, cpu) : only_copy(line, cpu);
}

static void take(CoherenceLine *line, int owner)
{
    memset(line->sharers, 0, sizeof(line->sharers));
    if (owner >= 0) {
        line->sharers[owner / 64] = BIT_ULL(owner % 64);
    }
    line->owner = owner;
    line->version++;
    line->quiet = 0;
}

static int64_t way(const CoherenceModel *m, int from, int to)
{
    if (from == COHERENCE_HOME) {
        return m->profile.home;
    }
    return from == COHERENCE_NOBODY ? 0 : coherence_latency(m, from, to);
}

/* The last copy to answer decides when @cpu's becomes the only one. */
static int64_t way_exclusive(const CoherenceModel *m,
                             const CoherenceLine *line, int cpu)
{
    int64_t far = line->owner == cpu ? 0 : way(m, line->owner, cpu);
    unsigned others = 0;

    for (unsigned i = 0; i < ARRAY_SIZE(line->sharers); i++) {
        uint64_t left = line->sharers[i];

        for (; left; left &= left - 1) {
            int from = i * 64 + ctz64(left);

            if (from != cpu) {
                others++;
                far = MAX(far, coherence_latency(m, from, cpu));
            }
        }
    }
    return far + (others > 1 ? others - 1 : 0) * m->profile.invalidate;
}

/* Forget the stores that have arrived by @now. */
static void retire(CoherenceStores *s, int64_t now)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < s->n; i++) {
        if (s->done[i] > now) {
            s->done[kept++] = s->done[i];
        }
    }
    s->n = kept;
}

int64_t coherence_stores_drained(CoherenceModel *m, int cpu, int64_t now)
{
    CoherenceStores *s = &m->stores[cpu];

    for (unsigned i = 0; i < s->n; i++) {
        now = MAX(now, s->done[i]);
    }
    s->n = 0;
    return now;
}

static void moved(CoherenceLine *line, CoherenceCost *c)
{
    c->moved = true;
    line->stats.transfers++;
    line->stats.wait += c->line_wait;
    line->stats.transfer += c->line_transfer;
    line->stats.max_wait = MAX(line->stats.max_wait, c->line_wait);
}

static CoherenceCost load(CoherenceModel *m, CoherenceLine *line, int cpu,
                          int64_t now)
{
    CoherenceCost c = {};
    int64_t start;

    if (shares(line, cpu)) {
        return c;
    }
    if (line->owner == COHERENCE_NOBODY) {
        line->owner = cpu;
    } else {
        start = MAX(now, line->busy_until);
        c.wait = c.line_wait = start - now;
        c.transfer = c.line_transfer = way(m, line->owner, cpu);
        /* Reads of several CPUs overlap. */
        line->busy_until = start + MIN(m->profile.read_occupancy, c.transfer);
        moved(line, &c);
    }
    line->sharers[cpu / 64] |= BIT_ULL(cpu % 64);
    return c;
}

static CoherenceCost store(CoherenceModel *m, CoherenceLine *line, int cpu,
                           int64_t now)
{
    CoherenceStores *s = &m->stores[cpu];
    CoherenceCost c = {};
    int64_t start;

    if (line->owner == COHERENCE_NOBODY) {
        take(line, cpu);
        return c;
    }
    if (only_copy(line, cpu)) {
        return c;
    }
    if (m->profile.store_buffer) {
        retire(s, now);
        if (s->n >= m->profile.store_buffer) {
            int64_t first = s->done[0];

            for (unsigned i = 1; i < s->n; i++) {
                first = MIN(first, s->done[i]);
            }
            c.wait = first - now;
            now = first;
            retire(s, now);
        }
    }
    start = MAX(now, line->busy_until);
    c.line_wait = start - now;
    c.line_transfer = way_exclusive(m, line, cpu);
    line->busy_until = start + c.line_transfer;
    if (m->profile.store_buffer) {
        s->done[s->n++] = line->busy_until;
    } else {
        c.wait = c.line_wait;
        c.transfer = c.line_transfer;
    }
    take(line, cpu);
    moved(line, &c);
    return c;
}

static CoherenceCost atomic(CoherenceModel *m, CoherenceLine *line, int cpu,
                            int64_t now)
{
    const CoherenceProfile *p = &m->profile;
    int64_t drained = coherence_stores_drained(m, cpu, now);
    int64_t start = MAX(drained, line->busy_until);
    CoherenceCost c = { .atomic = p->atomic, .wait = start - now };

    if (line->owner == COHERENCE_NOBODY) {
        take(line, cpu);
    }
    if (only_copy(line, cpu)) {
        line->busy_until = start + c.atomic;
        return c;
    }

    c.line_wait = start - drained;
    c.line_transfer = way_exclusive(m, line, cpu);
    if (c.line_wait) {
        c.atomic += p->contended_atomic;
    }
    if (p->far_atomics) {
        bool at_home = line->owner == COHERENCE_HOME &&
                       !line->sharers[0] && !line->sharers[1];

        c.line_transfer = MAX(c.line_transfer, p->home);
        line->busy_until = start + p->far_occupancy + c.atomic - p->atomic;
        if (!at_home) {
            /* The copies come home first. */
            line->busy_until = MAX(line->busy_until,
                                   start + c.line_transfer);
        }
        take(line, COHERENCE_HOME);
    } else {
        line->busy_until = start + c.line_transfer + c.atomic;
        take(line, cpu);
    }
    c.transfer = c.line_transfer;
    moved(line, &c);
    return c;
}

CoherenceCost coherence_line_access(CoherenceModel *m, CoherenceLine *line,
                                    int cpu, CoherenceOp op, int64_t now)
{
    line->stats.accesses[op]++;
    if (line->owner == cpu && line->quiet < UINT8_MAX) {
        line->quiet++;
    }
    switch (op) {
    case COHERENCE_LOAD:
        return load(m, line, cpu, now);
    case COHERENCE_STORE:
        return store(m, line, cpu, now);
    default:
        return atomic(m, line, cpu, now);
    }
}

void coherence_line_device_write(CoherenceLine *line, int64_t now)
{
    line->busy_until = MAX(line->busy_until, now);
    take(line, COHERENCE_HOME);
}
