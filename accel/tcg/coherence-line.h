/*
 * Cache lines that many vCPUs use: what an access costs
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A pure model (docs/specs/coherence.rst): no clock, no TLB, no QEMU state.
 * Times are picoseconds.  The caller has accesses happen in the order of
 * their time, and serialises all calls.
 */

#ifndef ACCEL_TCG_COHERENCE_LINE_H
#define ACCEL_TCG_COHERENCE_LINE_H

#define COHERENCE_LINE_BITS 6
#define COHERENCE_MAX_CPUS 128
#define COHERENCE_MAX_STORE_BUFFER 64

/* How near two CPUs are; the profile has a latency for each. */
typedef enum CoherenceDistance {
    COHERENCE_SAME_CORE,        /* SMT siblings */
    COHERENCE_SAME_CLUSTER,
    COHERENCE_SAME_DIE,
    COHERENCE_SAME_SOCKET,
    COHERENCE_CROSS_SOCKET,
    COHERENCE_DISTANCES,
} CoherenceDistance;

/* Groups [topology] and [lines] of a profile. */
typedef struct CoherenceProfile {
    /* CPUs with consecutive numbers in one; each divides the next. */
    int64_t per_core, per_cluster, per_die, per_socket;
    int64_t transfer[COHERENCE_DISTANCES];
    int64_t home;               /* from memory or the last-level cache */
    int64_t read_occupancy;     /* of the line, by a read that misses */
    int64_t invalidate;         /* each sharer after the first */
    int64_t atomic;             /* an atomic operation, once the line is here */
    int64_t contended_atomic;   /* more, if it had to wait for the line */
    int64_t far_atomics;        /* 1: executed at home, unless here */
    int64_t far_occupancy;      /* of the line, by a far atomic */
    int64_t store_buffer;       /* entries; 0: a store waits for its line */
    int64_t random_order;       /* 1: who waits is served in any order */
    int64_t slack;              /* ahead of the others without yielding */
} CoherenceProfile;

typedef enum CoherenceOp {
    COHERENCE_LOAD,
    COHERENCE_STORE,
    COHERENCE_ATOMIC,
    COHERENCE_OPS,
} CoherenceOp;

/* Owners that are no vCPU. */
#define COHERENCE_NOBODY (-1)   /* not used yet */
#define COHERENCE_HOME (-2)     /* memory or the last-level cache */

typedef struct CoherenceLineStats {
    uint64_t transfers;
    int64_t wait;               /* until the line was free */
    int64_t transfer;           /* until it was here */
    int64_t max_wait;
    uint64_t accesses[COHERENCE_OPS];
    uint64_t cas;               /* attempts to compare and swap */
    uint64_t cas_ok;
} CoherenceLineStats;

typedef struct CoherenceLine {
    int64_t busy_until;
    uint64_t sharers[COHERENCE_MAX_CPUS / 64];
    int owner;
    uint32_t version;           /* times that its only copy changed hands */
    uint8_t quiet;              /* the owner's accesses since, saturating */
    CoherenceLineStats stats;
} CoherenceLine;

/* Stores on their way; a vCPU's. */
typedef struct CoherenceStores {
    unsigned n;
    int64_t done[COHERENCE_MAX_STORE_BUFFER];
} CoherenceStores;

typedef struct CoherenceModel {
    CoherenceProfile profile;
    unsigned n_cpus;
    int64_t *latency;           /* [from * n_cpus + to] */
    CoherenceStores *stores;    /* [n_cpus] */
} CoherenceModel;

/* What an access costs its vCPU, and what it did to the line. */
typedef struct CoherenceCost {
    int64_t wait;               /* for the line or the store buffer */
    int64_t transfer;
    int64_t atomic;
    bool moved;                 /* the line came from elsewhere */
    int64_t line_wait;
    int64_t line_transfer;
} CoherenceCost;

void coherence_model_init(CoherenceModel *m, const CoherenceProfile *p,
                          unsigned n_cpus);
void coherence_model_destroy(CoherenceModel *m);

static inline int64_t coherence_latency(const CoherenceModel *m, int from,
                                        int to)
{
    return m->latency[from * m->n_cpus + to];
}

void coherence_line_init(CoherenceLine *line);

/* Whether the access needs nothing from elsewhere. */
bool coherence_line_hit(const CoherenceLine *line, int cpu, CoherenceOp op);

/* @cpu accesses @line at @now. */
CoherenceCost coherence_line_access(CoherenceModel *m, CoherenceLine *line,
                                    int cpu, CoherenceOp op, int64_t now);

/* A device wrote to the line at @now. */
void coherence_line_device_write(CoherenceLine *line, int64_t now);

/* When all of @cpu's stores have left its buffer; @now if they have. */
int64_t coherence_stores_drained(CoherenceModel *m, int cpu, int64_t now);

/* coherence-profile.c; only the part of the profile that is named above. */
bool coherence_profile_load(CoherenceProfile *p, const char *path,
                            Error **errp);

#endif
