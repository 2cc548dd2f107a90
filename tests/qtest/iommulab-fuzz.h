/*
 * Random sequences against an IOMMU: what both fuzzers share
 *
 * A sequence is a number of random steps: register accesses, descriptors and
 * table entries in memory, DMA, time. What it does depends on the seed and its
 * number alone. After each one QEMU has to be alive and has to have used no
 * more than a bounded amount of CPU time.
 *
 * Commands to QEMU are collected and sent in one piece when an answer is
 * needed, a few times in a sequence: waiting for each one's answer took ten
 * times as long as what QEMU does for it.
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

#include <poll.h>
#include <sys/un.h>
#include "iommulab-dma-qtest.h"

/*
 * QEMU starts with a machine that has been reset every so many sequences, so
 * that a failure can be had again from there.
 */
#define FUZZ_SESSION            2000

#define FUZZ_SEQUENCES          2000
#define FUZZ_CPU_MS             2000

/* QEMU hangs if it does not answer for so long */
#define FUZZ_HANG_MS            300000

/*
 * Commands are sent at the latest when they are so many bytes. As answers are
 * read only after that, these and the answers have to fit in a socket.
 */
#define FUZZ_PIECE              8192
#define FUZZ_ANSWERS            (FUZZ_PIECE / 8)

typedef struct Fuzz {
    DMATest t;
    int fd;                 /* libqtest's connection */
    GString *out;           /* commands that are not sent yet */
    unsigned n_out;         /* how many */
    uint64_t answers[FUZZ_ANSWERS];     /* to the commands sent last */
    const char *machine;
    const char *device;
    uint64_t rng;
    uint64_t sequence;      /* the one that runs */
    int64_t worst;          /* CPU time of a sequence, ns */
    bool first;             /* the sequence's first step */
    bool fresh;             /* a session has begun: for steps to clear */
    bool shadow;            /* whether the following are what QEMU has */
    uint64_t tail;          /* of the queue */
    uint64_t base;
    uint64_t steps;         /* in all */
    uint64_t commands;      /* to QEMU, in all */
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

/* --------------------------------------------------- commands to QEMU */

/*
 * The connection that libqtest has. It keeps nothing back: each of its
 * functions reads the whole answer and no more.
 */
static inline int fuzz_connection(void)
{
    g_autofree char *path = g_strdup_printf("%s/qtest-%d.sock",
                                            g_get_tmp_dir(), getpid());

    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_un addr = { };
        socklen_t size = sizeof(addr) - 1, int_size = sizeof(int);
        int listens;

        if (getsockname(fd, (struct sockaddr *)&addr, &size) == 0 &&
            addr.sun_family == AF_UNIX && g_str_equal(addr.sun_path, path) &&
            getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens,
                       &int_size) == 0 && !listens) {
            return fd;
        }
    }
    g_assert_not_reached();
}

/* Send what was collected, and wait until QEMU has done it */
static inline void fuzz_drain(Fuzz *f)
{
    char buf[4096], line[64];
    unsigned n = 0, len = 0;

    for (size_t at = 0; at < f->out->len;) {
        ssize_t sent = send(f->fd, f->out->str + at, f->out->len - at,
                            MSG_NOSIGNAL);

        if (sent < 0 && errno != EINTR) {
            g_test_message("QEMU is gone");
            abort();
        }
        at += MAX(sent, 0);
    }
    while (n < f->n_out) {
        struct pollfd p = { .fd = f->fd, .events = POLLIN };
        ssize_t got;

        if (poll(&p, 1, FUZZ_HANG_MS) == 0) {
            g_test_message("QEMU does not answer");
            abort();
        }
        got = recv(f->fd, buf, sizeof(buf), 0);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            g_test_message("QEMU is gone");
            abort();
        }
        for (ssize_t i = 0; i < got; i++) {
            if (buf[i] != '\n') {
                g_assert_cmpuint(len, <, sizeof(line) - 1);
                line[len++] = buf[i];
                continue;
            }
            line[len] = 0;
            len = 0;
            g_assert_true(g_str_has_prefix(line, "OK"));
            g_assert_cmpuint(n, <, f->n_out);
            f->answers[n++] = g_ascii_strtoull(line + 2, NULL, 0);
        }
    }
    f->commands += n;
    f->n_out = 0;
    g_string_truncate(f->out, 0);
}

/* The number of its answer in f->answers, once fuzz_drain() was called */
static inline unsigned G_GNUC_PRINTF(2, 3) fuzz_send(Fuzz *f,
                                                     const char *fmt, ...)
{
    va_list ap;

    if (f->out->len > FUZZ_PIECE - 64 || f->n_out == FUZZ_ANSWERS) {
        fuzz_drain(f);
    }
    va_start(ap, fmt);
    g_string_append_vprintf(f->out, fmt, ap);
    va_end(ap);
    return f->n_out++;
}

static inline void fuzz_writel(Fuzz *f, uint64_t addr, uint32_t val)
{
    fuzz_send(f, "writel 0x%" PRIx64 " 0x%x\n", addr, val);
}

static inline void fuzz_writeq(Fuzz *f, uint64_t addr, uint64_t val)
{
    fuzz_send(f, "writeq 0x%" PRIx64 " 0x%" PRIx64 "\n", addr, val);
}

/* Read, whatever it is */
static inline void fuzz_touch(Fuzz *f, char size, uint64_t addr)
{
    fuzz_send(f, "read%c 0x%" PRIx64 "\n", size, addr);
}

static inline uint32_t fuzz_readl(Fuzz *f, uint64_t addr)
{
    unsigned n = fuzz_send(f, "readl 0x%" PRIx64 "\n", addr);
    fuzz_drain(f);
    return f->answers[n];
}

static inline uint64_t fuzz_readq(Fuzz *f, uint64_t addr)
{
    unsigned n = fuzz_send(f, "readq 0x%" PRIx64 "\n", addr);
    fuzz_drain(f);
    return f->answers[n];
}

static inline void fuzz_clock_step(Fuzz *f, int64_t ns)
{
    fuzz_send(f, "clock_step %" PRIi64 "\n", ns);
}

/* -------------------------------------------------------- random steps */

/* Let the DMA device do something at @addr */
static inline void fuzz_dma(Fuzz *f, uint64_t addr)
{
    static const uint32_t ops[] = {
        IOMMULAB_DMA_CMD_READ, IOMMULAB_DMA_CMD_WRITE, IOMMULAB_DMA_CMD_STOP
    };
    uint64_t regs = f->t.bar.addr + IOMMULAB_DMA_QUEUE(fuzz_below(f, 4));
    uint32_t flags = fuzz_u64(f) & (IOMMULAB_DMA_CMD_FAULT_STOP |
                                    IOMMULAB_DMA_CMD_DIFF_STOP |
                                    IOMMULAB_DMA_CMD_IRQ |
                                    IOMMULAB_DMA_CMD_ATS);

    if (!strstr(f->device, "ats=on") || fuzz_once_in(f, 2)) {
        flags &= ~IOMMULAB_DMA_CMD_ATS;
    }
    fuzz_writeq(f, regs + IOMMULAB_DMA_ADDR,
                fuzz_once_in(f, 16) ? addr : addr & ~7ull);
    fuzz_writeq(f, regs + IOMMULAB_DMA_STRIDE, 0);
    fuzz_writel(f, regs + IOMMULAB_DMA_SIZE, 8 << fuzz_below(f, 11));
    fuzz_writel(f, regs + IOMMULAB_DMA_COUNT, 1 + fuzz_below(f, 4));
    fuzz_writeq(f, regs + IOMMULAB_DMA_INTERVAL, fuzz_below(f, 100));
    fuzz_writeq(f, regs + IOMMULAB_DMA_PATTERN, fuzz_u64(f));
    fuzz_writel(f, regs + IOMMULAB_DMA_CMD,
                ops[fuzz_below(f, ARRAY_SIZE(ops))] | flags);
    if (!fuzz_once_in(f, 4)) {
        fuzz_clock_step(f, 1 + fuzz_below(f, 500));
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

/* What came of the steps of a session: statistics of the devices */
enum {
    FUZZ_HITS, FUZZ_MISSES, FUZZ_WALKS, FUZZ_INVALIDATED,
    FUZZ_COMMANDS, FUZZ_WAITS, FUZZ_FAULTS, FUZZ_TIMEOUTS, FUZZ_ABORTED,
    FUZZ_FULL, FUZZ_REACHED
};

static const char *const fuzz_reached_names[FUZZ_REACHED] = {
    "IOTLB hits", "misses", "walk reads", "invalidated",
    "commands", "waits", "errors", "timeouts", "aborted waits", "times full",
};

/* Add the counters of the IOMMU at @path to @reached */
static inline void fuzz_count(Fuzz *f, const char *path, uint64_t *reached)
{
    g_autofree char *smmu = path ? NULL : smmu_path(&f->t);
    static const char *const iotlb[] = {
        "iotlb-hits", "iotlb-misses", "iotlb-walk-reads", "iotlb-invalidated",
    };
    QDict *rsp = qtest_qmp(f->t.qts, "{'execute': 'query-iommu-queues'}");
    const QListEntry *i;

    for (int n = 0; n < ARRAY_SIZE(iotlb); n++) {
        reached[FUZZ_HITS + n] += iotlb_counter(&f->t, path ?: smmu,
                                                 iotlb[n]);
    }
    QLIST_FOREACH_ENTRY(qdict_get_qlist(rsp, "return"), i) {
        QDict *queue = qobject_to(QDict, qlist_entry_obj(i));
        const QListEntry *j;

        QLIST_FOREACH_ENTRY(qdict_get_qlist(queue, "cpus"), j) {
            QDict *cpu = qobject_to(QDict, qlist_entry_obj(j));

            reached[FUZZ_COMMANDS] += qdict_get_int(cpu, "commands");
            reached[FUZZ_WAITS] += qdict_get_int(cpu, "waits");
        }
        reached[FUZZ_FAULTS] += qdict_get_int(queue, "faults");
        reached[FUZZ_TIMEOUTS] += qdict_get_int(queue, "timeouts");
        reached[FUZZ_ABORTED] += qdict_get_int(queue, "aborted");
        reached[FUZZ_FULL] += qdict_get_int(queue, "full-times");
    }
    qobject_unref(rsp);
}

/*
 * Run the sequences of one configuration. @probe is the address of a register
 * that has always the same value, @path leads to the IOMMU, NULL to the
 * machine's SMMU. Bits of @expected are what has to happen for the test to be
 * worth anything.
 */
static inline void fuzz_run(const char *machine, const char *device,
                            FuzzStep *step, uint64_t probe, const char *path,
                            uint32_t expected)
{
    Fuzz f = { .machine = machine, .device = device };
    uint64_t seed = fuzz_env("IOMMULAB_FUZZ_SEED", 1);
    uint64_t first = fuzz_env("IOMMULAB_FUZZ_FIRST", 0) * FUZZ_SESSION;
    uint64_t last = first + fuzz_env("IOMMULAB_FUZZ_SEQUENCES",
                                     FUZZ_SEQUENCES);
    int64_t bound = fuzz_env("IOMMULAB_FUZZ_CPU_MS", FUZZ_CPU_MS) * 1000000;
    /* QEMU would format each command for a log that nobody reads */
    g_autofree char *quiet = g_strdup_printf("%s -qtest-log none", machine);
    uint64_t reached[FUZZ_REACHED] = { };
    g_autoptr(GString) text = g_string_new("");
    int64_t start = 0, used;
    uint32_t id = 0;

    f.out = g_string_new("");
    qtest_add_abrt_handler(fuzz_report, &f);
    for (f.sequence = first; f.sequence < last; f.sequence++) {
        if (f.sequence % FUZZ_SESSION == 0) {
            if (f.t.qts) {
                fuzz_count(&f, path, reached);
                dma_end(&f.t);
            }
            dma_start(&f.t, quiet, device);
            f.fd = fuzz_connection();
            id = fuzz_readl(&f, probe);
            f.fresh = true;
            f.shadow = false;
            start = fuzz_cpu_ns(&f);
        }
        f.rng = seed;
        f.rng = fuzz_u64(&f) ^ f.sequence;

        f.first = true;
        for (int n = 1 + fuzz_below(&f, 24); n > 0; n--) {
            step(&f);
            f.first = false;
            f.steps++;
        }
        fuzz_clock_step(&f, 1 + fuzz_below(&f, 10000));
        g_assert_cmphex(fuzz_readl(&f, probe), ==, id);
        used = fuzz_cpu_ns(&f);
        f.worst = MAX(f.worst, used - start);
        g_assert_cmpint(used - start, <, bound);
        start = used;
    }
    fuzz_count(&f, path, reached);
    for (int i = 0; i < FUZZ_REACHED; i++) {
        g_string_append_printf(text, ", %" PRIu64 " %s", reached[i],
                               fuzz_reached_names[i]);
    }
    g_test_message("%" PRIu64 " sequences, at most %" PRIi64 " us each, of "
                   "%.1f steps and %.1f commands%s", last - first,
                   f.worst / 1000, (double)f.steps / (last - first),
                   (double)f.commands / (last - first), text->str);
    for (int i = 0; i < FUZZ_REACHED; i++) {
        /* Sequences to go back to a failure may be few */
        if ((expected & 1u << i) && last - first >= FUZZ_SESSION) {
            g_assert_cmpuint(reached[i], >, 0);
        }
    }
    dma_end(&f.t);
    g_string_free(f.out, true);
    qtest_remove_abrt_handler(&f);
}

#endif
