/*
 * Random sequences against an IOMMU: what both fuzzers share
 *
 * A sequence is a number of random steps: register accesses, descriptors and
 * table entries in memory, DMA, time. What it does depends on the seed and its
 * number alone. After each one QEMU has to be alive and has to have used no
 * more than a bounded amount of CPU time.
 *
 * Environment, all optional:
 *   IOMMULAB_FUZZ_SEQUENCES  sequences for each configuration
 *   IOMMULAB_FUZZ_SEED       number; 1 by default
 *   IOMMULAB_FUZZ_FIRST      session to begin with, to go back to a failure
 *   IOMMULAB_FUZZ_CPU_MS     bound of a sequence; raise it for sanitizers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TESTS_IOMMULAB_FUZZ_H
#define TESTS_IOMMULAB_FUZZ_H

#include "iommulab-dma-qtest.h"

/*
 * QEMU starts with a machine that has been reset every so many sequences, so
 * that a failure can be had again from there.
 */
#define FUZZ_SESSION            200

#define FUZZ_SEQUENCES          500
#define FUZZ_CPU_MS             2000

typedef struct Fuzz {
    DMATest t;
    const char *machine;
    const char *device;
    uint64_t rng;
    uint64_t sequence;      /* the one that runs */
    int64_t worst;          /* CPU time of a sequence, ns */
} Fuzz;

/* One random step of the device under test */
typedef void FuzzStep(Fuzz *f);

/* splitmix64: any state is a good one */
static inline uint64_t fuzz_u64(Fuzz *f)
{
    uint64_t z = f->rng += 0x9e3779b97f4a7c15;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/* 0 to @n - 1 */
static inline uint32_t fuzz_below(Fuzz *f, uint32_t n)
{
    return fuzz_u64(f) % n;
}

/* True once in @n times */
static inline bool fuzz_once_in(Fuzz *f, uint32_t n)
{
    return !fuzz_below(f, n);
}

/* A number of the kinds that find mistakes */
static inline uint64_t fuzz_value(Fuzz *f)
{
    switch (fuzz_below(f, 8)) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX;
    case 2:
        return 1ull << fuzz_below(f, 64);
    case 3:
        return (1ull << fuzz_below(f, 64)) - 1;
    case 4:
        return fuzz_below(f, 256);
    case 5:
        return fuzz_u64(f) & fuzz_u64(f) & fuzz_u64(f);
    case 6:
        return fuzz_u64(f) >> fuzz_below(f, 64);
    default:
        return fuzz_u64(f);
    }
}

/* @val, once in a while with some bits flipped */
static inline uint64_t fuzz_flip(Fuzz *f, uint64_t val)
{
    if (fuzz_once_in(f, 4)) {
        for (int i = fuzz_below(f, 3); i >= 0; i--) {
            val ^= 1ull << fuzz_below(f, 64);
        }
    }
    return val;
}

/* Let the DMA device do something at @addr */
static inline void fuzz_dma(Fuzz *f, uint64_t addr)
{
    static const uint32_t ops[] = {
        IOMMULAB_DMA_CMD_READ, IOMMULAB_DMA_CMD_WRITE, IOMMULAB_DMA_CMD_STOP
    };
    int queue = fuzz_below(f, 4);
    uint32_t flags = fuzz_u64(f) & (IOMMULAB_DMA_CMD_FAULT_STOP |
                                    IOMMULAB_DMA_CMD_DIFF_STOP |
                                    IOMMULAB_DMA_CMD_IRQ |
                                    IOMMULAB_DMA_CMD_ATS);

    if (!strstr(f->device, "ats=on") || fuzz_once_in(f, 2)) {
        flags &= ~IOMMULAB_DMA_CMD_ATS;
    }
    dma_burst(&f->t, queue, ops[fuzz_below(f, ARRAY_SIZE(ops))] | flags,
              fuzz_once_in(f, 16) ? addr : addr & ~7ull,
              8 << fuzz_below(f, 11), 1 + fuzz_below(f, 4),
              fuzz_below(f, 100), fuzz_u64(f));
    if (!fuzz_once_in(f, 4)) {
        qtest_clock_step(f->t.qts, 1 + fuzz_below(f, 500));
    }
}

static inline int64_t fuzz_cpu_ns(Fuzz *f)
{
    clockid_t clock;
    struct timespec ts;

    g_assert_cmpint(clock_getcpuclockid(qtest_pid(f->t.qts), &clock), ==, 0);
    g_assert_cmpint(clock_gettime(clock, &ts), ==, 0);
    return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static inline uint64_t fuzz_env(const char *name, uint64_t value)
{
    const char *text = g_getenv(name);

    return text ? g_ascii_strtoull(text, NULL, 0) : value;
}

/* QEMU is gone, or does not answer: say how to get there again */
static inline void fuzz_report(void *opaque)
{
    Fuzz *f = opaque;

    fprintf(stderr, "# sequence %" PRIu64 " of %s %s: begin with "
            "IOMMULAB_FUZZ_FIRST=%" PRIu64 "\n", f->sequence, f->machine,
            f->device, f->sequence / FUZZ_SESSION);
}

/*
 * Run the sequences of one configuration. @probe reads a register that has
 * always the same value.
 */
static inline void fuzz_run(const char *machine, const char *device,
                            FuzzStep *step, uint32_t (*probe)(QTestState *))
{
    Fuzz f = { .machine = machine, .device = device };
    uint64_t seed = fuzz_env("IOMMULAB_FUZZ_SEED", 1);
    uint64_t first = fuzz_env("IOMMULAB_FUZZ_FIRST", 0) * FUZZ_SESSION;
    uint64_t last = first + fuzz_env("IOMMULAB_FUZZ_SEQUENCES",
                                     FUZZ_SEQUENCES);
    int64_t bound = fuzz_env("IOMMULAB_FUZZ_CPU_MS", FUZZ_CPU_MS) * 1000000;
    uint32_t id = 0;

    qtest_add_abrt_handler(fuzz_report, &f);
    for (f.sequence = first; f.sequence < last; f.sequence++) {
        int64_t start, used;

        if (f.sequence % FUZZ_SESSION == 0) {
            if (f.t.qts) {
                dma_end(&f.t);
            }
            dma_start(&f.t, machine, device);
            id = probe(f.t.qts);
        }
        f.rng = seed;
        f.rng = fuzz_u64(&f) ^ f.sequence;

        start = fuzz_cpu_ns(&f);
        for (int n = 1 + fuzz_below(&f, 24); n > 0; n--) {
            step(&f);
        }
        qtest_clock_step(f.t.qts, 1 + fuzz_below(&f, 10000));
        g_assert_cmphex(probe(f.t.qts), ==, id);
        used = fuzz_cpu_ns(&f) - start;

        f.worst = MAX(f.worst, used);
        g_assert_cmpint(used, <, bound);
    }
    g_test_message("%" PRIu64 " sequences, at most %" PRIi64 " us each",
                   last - first, f.worst / 1000);
    dma_end(&f.t);
    qtest_remove_abrt_handler(&f);
}

#endif
