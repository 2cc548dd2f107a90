/*
 * Unit test of the IOMMU queue engine: no machine, only the engine
 *
 * The commands are made up: the low byte is an opcode, bits 8 to 31 its
 * cycles, the next 32 bits those of the endpoint.  The clock has 1 GHz, so a
 * cycle is 1000 ps.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/iommu/queue-engine.h"

#define NS 1000

enum {
    OP_INV = 1,
    OP_WAIT,            /* VT-d's */
    OP_FENCE,           /* VT-d's with FN */
    OP_SYNC,            /* SMMUv3's */
    OP_ATS,
    OP_TIMEOUT,
    OP_ILLEGAL,
    OP_FAILS,           /* found out when it is executed */
};

#define RING 512

typedef struct Dev {
    QueueEngine e;
    uint64_t ring[RING];
    int64_t now;
    int64_t armed;
    uint32_t head;
    uint32_t was_full;
    uint32_t removes;   /* cache entries each invalidation drops */
    int n_fetched;
    int n_faults;
    QueueCmd fault;
    int n_stopped;
    int n_aborted;
    /* What was executed, and when */
    int n;
    struct {
        uint8_t op;
        uint32_t pos;
        int64_t at;
    } log[4096];
} Dev;

static void op_fetch(void *opaque, QueueCmd *cmd, uint64_t *cycles,
                     uint64_t *remote)
{
    Dev *d = opaque;

    d->n_fetched++;
    cmd->desc[0] = d->ring[cmd->pos % RING];
    cmd->class = cmd->desc[0] & 0xff;
    *cycles = (uint32_t)cmd->desc[0] >> 8;
    *remote = cmd->desc[0] >> 32;
    switch (cmd->class) {
    case OP_WAIT:
        cmd->flags = QUEUE_CMD_WAIT;
        break;
    case OP_FENCE:
        cmd->flags = QUEUE_CMD_WAIT | QUEUE_CMD_FENCE;
        break;
    case OP_SYNC:
        cmd->flags = QUEUE_CMD_WAIT | QUEUE_CMD_FENCE | QUEUE_CMD_HOLD;
        break;
    case OP_ATS:
    case OP_TIMEOUT:
        cmd->flags = QUEUE_CMD_REMOTE;
        break;
    case OP_ILLEGAL:
        cmd->error = 7;
        break;
    }
}

static QueueResult op_execute(void *opaque, QueueCmd *cmd, uint32_t *removed)
{
    Dev *d = opaque;

    if (d->n < ARRAY_SIZE(d->log)) {
        d->log[d->n].op = cmd->class;
        d->log[d->n].pos = cmd->pos;
        d->log[d->n++].at = cmd->done;
    }
    *removed = cmd->class == OP_INV ? d->removes : 0;
    if (cmd->class == OP_FAILS) {
        cmd->error = 9;
        return QUEUE_FAULT;
    }
    return cmd->class == OP_TIMEOUT ? QUEUE_TIMEOUT : QUEUE_OK;
}

static void op_aborted(void *opaque, const QueueCmd *cmd)
{
    ((Dev *)opaque)->n_aborted++;
}

static void op_fault(void *opaque, const QueueCmd *cmd)
{
    Dev *d = opaque;

    d->n_faults++;
    d->fault = *cmd;
    d->head = cmd->pos;
}

static void op_head(void *opaque, uint32_t pos, bool was_full)
{
    Dev *d = opaque;

    d->head = pos;
    d->was_full += was_full;
}

static void op_stopped(void *opaque)
{
    ((Dev *)opaque)->n_stopped++;
}

static void op_arm(void *opaque, int64_t when)
{
    ((Dev *)opaque)->armed = when;
}

static const QueueEngineOps ops = {
    .fetch = op_fetch,
    .execute = op_execute,
    .aborted = op_aborted,
    .fault = op_fault,
    .head = op_head,
    .stopped = op_stopped,
    .arm = op_arm,
};

static const QueueCosts free_of_charge = { .depth = 1, .remote_depth = 32 };

static Dev *dev_new(const QueueCosts *costs, uint32_t capacity)
{
    Dev *d = g_new0(Dev, 1);

    d->armed = QUEUE_ENGINE_NEVER;
    queue_engine_init(&d->e, &ops, d, 4);
    d->e.costs = *costs;
    d->e.period = 1ULL << 32;
    queue_engine_enable(&d->e, 2 * capacity - 1, capacity, 16, 0, 0);
    return d;
}

static void dev_free(Dev *d)
{
    queue_engine_destroy(&d->e);
    g_free(d);
}

static void put(Dev *d, uint32_t pos, uint8_t op, uint32_t cycles)
{
    d->ring[pos % RING] = op | cycles << 8;
}

/* Let time pass as a timer would. */
static void run_until(Dev *d, int64_t t)
{
    int64_t last = -1;

    while (d->armed <= t) {
        g_assert_cmpint(d->armed, >=, last);
        last = d->now = d->armed;
        d->armed = QUEUE_ENGINE_NEVER;
        d->e.wake = QUEUE_ENGINE_NEVER;
        queue_engine_run(&d->e, d->now);
    }
    d->now = t;
    queue_engine_run(&d->e, t);
}

static void ring(Dev *d, uint32_t tail, int cpu)
{
    queue_engine_doorbell(&d->e, tail, d->now, cpu);
}

#define assert_log(_d, _i, _op, _at) do {                           \
        g_assert_cmpint((_d)->n, >, _i);                            \
        g_assert_cmpint((_d)->log[_i].op, ==, _op);                 \
        g_assert_cmpint((_d)->log[_i].at, ==, _at);                 \
    } while (0)

/* Doorbell, fetch and execution add up; nothing happens early. */
static void test_single(void)
{
    QueueCosts costs = { .doorbell = 100, .fetch = 50, .depth = 1,
                         .remote_depth = 1 };
    Dev *d = dev_new(&costs, 256);

    put(d, 0, OP_INV, 30);
    put(d, 1, OP_SYNC, 20);
    ring(d, 2, 3);
    g_assert_cmpint(d->armed, ==, 200 * NS);
    run_until(d, 149 * NS);
    g_assert_cmpint(d->head, ==, 0);
    run_until(d, 150 * NS);
    /* The head passes a command as it starts, */
    g_assert_cmpint(d->head, ==, 1);
    run_until(d, 179 * NS);
    g_assert_cmpint(d->n, ==, 0);
    run_until(d, 199 * NS);
    assert_log(d, 0, OP_INV, 180 * NS);
    /* but a sync when it is complete. */
    g_assert_cmpint(d->head, ==, 1);
    g_assert_cmpint(d->n, ==, 1);
    run_until(d, 200 * NS);
    g_assert_cmpint(d->head, ==, 2);
    assert_log(d, 1, OP_SYNC, 200 * NS);
    g_assert_cmpint(d->armed, ==, QUEUE_ENGINE_NEVER);

    g_assert_cmpint(d->e.cpus[3].doorbells, ==, 1);
    g_assert_cmpint(d->e.cpus[3].commands, ==, 2);
    g_assert_cmpint(d->e.cpus[3].wait_ps, ==, 200 * NS);
    g_assert_cmpint(d->e.stats.busy_ps, ==, 200 * NS);
    g_assert_cmpint(d->e.stats.lines, ==, 1);
    /* Two commands for 150 ns, one for 50 */
    g_assert_cmpint(d->e.stats.occupancy_ns, ==, 350);
    dev_free(d);
}

static void test_depth(void)
{
    QueueCosts costs = { .interval = 10, .depth = 2, .remote_depth = 1 };
    Dev *d = dev_new(&costs, 256);

    for (int i = 0; i < 4; i++) {
        put(d, i, OP_INV, 100);
    }
    ring(d, 4, 0);
    run_until(d, 1000 * NS);
    assert_log(d, 0, OP_INV, 100 * NS);
    assert_log(d, 1, OP_INV, 110 * NS);
    assert_log(d, 2, OP_INV, 200 * NS);
    assert_log(d, 3, OP_INV, 210 * NS);
    dev_free(d);
}

/* A line holds four commands; the next is fetched as this one starts. */
static void test_lines(void)
{
    QueueCosts costs = { .fetch = 100, .depth = 1, .remote_depth = 1 };
    Dev *d = dev_new(&costs, 256);

    for (int i = 0; i < 9; i++) {
        put(d, i, OP_INV, 10);
    }
    ring(d, 9, 0);
    run_until(d, 10000 * NS);
    assert_log(d, 0, OP_INV, 110 * NS);
    assert_log(d, 3, OP_INV, 140 * NS);
    assert_log(d, 4, OP_INV, 210 * NS);
    assert_log(d, 8, OP_INV, 310 * NS);
    g_assert_cmpint(d->e.stats.lines, ==, 3);
    dev_free(d);
}

/* What a later doorbell adds to a line that is not fetched yet comes along. */
static void test_line_merge(void)
{
    QueueCosts costs = { .doorbell = 10, .fetch = 100, .depth = 1,
                         .remote_depth = 1 };
    Dev *d = dev_new(&costs, 256);

    for (int i = 0; i < 4; i++) {
        put(d, i, OP_INV, 10);
    }
    ring(d, 1, 0);              /* fetched alone, at 10 */
    run_until(d, 20 * NS);
    ring(d, 2, 1);              /* the rest together, at 110 */
    run_until(d, 50 * NS);
    ring(d, 3, 2);
    run_until(d, 101 * NS);
    ring(d, 4, 3);              /* this not: it would arrive at 111 */
    run_until(d, 1000 * NS);
    assert_log(d, 0, OP_INV, 120 * NS);
    assert_log(d, 1, OP_INV, 220 * NS);
    assert_log(d, 2, OP_INV, 230 * NS);
    assert_log(d, 3, OP_INV, 320 * NS);
    g_assert_cmpint(d->e.stats.lines, ==, 3);
    for (int i = 0; i < 4; i++) {
        g_assert_cmpint(d->e.cpus[i].commands, ==, 1);
    }
    dev_free(d);
}

/* A wait lets what is behind it start; a fence does not. */
static void test_fence(void)
{
    QueueCosts costs = { .depth = 4, .remote_depth = 1 };
    Dev *d = dev_new(&costs, 256);

    put(d, 0, OP_INV, 100);
    put(d, 1, OP_WAIT, 10);
    put(d, 2, OP_INV, 105);
    put(d, 3, OP_FENCE, 10);
    put(d, 4, OP_INV, 100);
    ring(d, 5, 0);
    run_until(d, 0);
    /* All that may start has, but for what is behind the fence. */
    g_assert_cmpint(d->head, ==, 4);
    run_until(d, 1000 * NS);
    assert_log(d, 1, OP_WAIT, 110 * NS);
    assert_log(d, 2, OP_INV, 110 * NS);
    assert_log(d, 3, OP_FENCE, 120 * NS);
    assert_log(d, 4, OP_INV, 220 * NS);
    dev_free(d);
}

static void test_remote(void)
{
    QueueCosts costs = { .depth = 1, .remote_depth = 2 };
    Dev *d = dev_new(&costs, 256);

    for (int i = 0; i < 3; i++) {
        put(d, i, OP_ATS, 10);
        d->ring[i] |= 1000ULL << 32;
    }
    put(d, 3, OP_INV, 10);
    put(d, 4, OP_SYNC, 0);
    ring(d, 5, 0);
    run_until(d, 100000 * NS);
    assert_log(d, 0, OP_ATS, 1010 * NS);
    assert_log(d, 1, OP_ATS, 1020 * NS);
    /* Only two may be on their way. */
    assert_log(d, 2, OP_ATS, 2020 * NS);
    assert_log(d, 4, OP_SYNC, 2020 * NS);
    dev_free(d);
}

static void test_timeout(void)
{
    QueueCosts costs = { .depth = 4, .interval = 10, .remote_depth = 4,
                         .doorbell = 5 };
    Dev *d = dev_new(&costs, 256);

    put(d, 0, OP_TIMEOUT, 1);
    d->ring[0] |= 200ULL << 32;
    put(d, 1, OP_WAIT, 1);
    put(d, 2, OP_INV, 1);
    put(d, 3, OP_FENCE, 1);
    put(d, 4, OP_WAIT, 1);
    ring(d, 5, 0);
    run_until(d, 10000 * NS);
    g_assert_cmpint(d->e.stats.timeouts, ==, 1);
    g_assert_cmpint(d->n_aborted, ==, 2);
    /* The invalidation that had started is done, what had not is kept. */
    g_assert_cmpint(d->n, ==, 2);
    assert_log(d, 0, OP_TIMEOUT, 206 * NS);
    g_assert_cmpint(d->log[1].op, ==, OP_INV);
    g_assert_cmpint(d->head, ==, 4);
    g_assert_true(d->e.halted);

    queue_engine_restart(&d->e, d->now);
    run_until(d, 20000 * NS);
    assert_log(d, 2, OP_WAIT, 10006 * NS);
    g_assert_cmpint(d->head, ==, 5);
    dev_free(d);
}

static void test_fault(void)
{
    QueueCosts costs = { .doorbell = 5, .depth = 4, .remote_depth = 1 };
    Dev *d = dev_new(&costs, 256);

    put(d, 0, OP_INV, 100);
    put(d, 1, OP_ILLEGAL, 0);
    put(d, 2, OP_INV, 1);
    ring(d, 3, 0);
    run_until(d, 104 * NS);
    g_assert_cmpint(d->n_faults, ==, 0);
    run_until(d, 10000 * NS);
    /* Commands before it complete first, none after it starts. */
    g_assert_cmpint(d->n_faults, ==, 1);
    g_assert_cmpint(d->fault.pos, ==, 1);
    g_assert_cmpint(d->fault.error, ==, 7);
    g_assert_cmpint(d->fault.done, ==, 105 * NS);
    g_assert_cmpint(d->n, ==, 1);
    g_assert_cmpint(d->head, ==, 1);

    /* A doorbell does not help, */
    put(d, 3, OP_INV, 1);
    ring(d, 4, 0);
    run_until(d, 20000 * NS);
    g_assert_cmpint(d->n, ==, 1);
    /* a repaired command does. */
    put(d, 1, OP_INV, 10);
    queue_engine_restart(&d->e, d->now);
    run_until(d, 30000 * NS);
    g_assert_cmpint(d->n, ==, 4);
    assert_log(d, 1, OP_INV, 20015 * NS);
    g_assert_cmpint(d->head, ==, 4);
    dev_free(d);
}

static void test_late_fault(void)
{
    QueueCosts costs = { .depth = 4, .remote_depth = 1 };
    Dev *d = dev_new(&costs, 256);

    put(d, 0, OP_INV, 100);
    put(d, 1, OP_FAILS, 50);
    put(d, 2, OP_INV, 200);
    ring(d, 3, 0);
    run_until(d, 99 * NS);
    g_assert_cmpint(d->head, ==, 3);
    run_until(d, 10000 * NS);
    g_assert_cmpint(d->n_faults, ==, 1);
    g_assert_cmpint(d->fault.error, ==, 9);
    g_assert_cmpint(d->head, ==, 1);
    put(d, 1, OP_INV, 1);
    queue_engine_restart(&d->e, d->now);
    run_until(d, 20000 * NS);
    g_assert_cmpint(d->head, ==, 3);
    g_assert_cmpint(d->log[d->n - 1].pos, ==, 2);
    dev_free(d);
}

/* A ring that is full is not empty; it wraps; full time is measured. */
static void test_wrap_full(void)
{
    QueueCosts costs = { .depth = 1, .remote_depth = 1 };
    Dev *d = dev_new(&costs, 8);
    uint32_t tail = 0;

    for (int i = 0; i < RING; i++) {
        put(d, i, OP_INV, 10);
    }
    for (int round = 0; round < 20; round++) {
        tail = (tail + 8) & 15;
        ring(d, tail, 0);
        if (round == 0) {
            /* The first started at once and left the queue. */
            g_assert_cmpint(d->e.stats.full_times, ==, 1);
        }
        run_until(d, d->now + 1000 * NS);
        g_assert_cmpint(d->head, ==, tail);
        g_assert_cmpint(d->n, ==, (round + 1) * 8);
    }
    g_assert_cmpint(d->e.stats.full_times, ==, 20);
    g_assert_cmpint(d->was_full, ==, 20);
    dev_free(d);

    costs.doorbell = 100;
    d = dev_new(&costs, 8);
    for (int i = 0; i < 8; i++) {
        put(d, i, OP_INV, 10);
    }
    ring(d, 8, 0);
    run_until(d, 10000 * NS);
    g_assert_cmpint(d->e.stats.full_ps, ==, 100 * NS);
    dev_free(d);
}

/* Longer than what can be in flight, planned in several steps */
static void test_long(void)
{
    QueueCosts costs = { .fetch = 3, .interval = 2, .depth = 3,
                         .remote_depth = 1 };
    Dev *d = dev_new(&costs, 256);
    int64_t done[256];

    for (int i = 0; i < 256; i++) {
        put(d, i, i % 50 == 49 ? OP_SYNC : OP_INV, i % 7);
    }
    ring(d, 256, 0);
    run_until(d, 100000 * NS);
    g_assert_cmpint(d->n, ==, 256);
    for (int i = 0; i < 256; i++) {
        g_assert_cmpint(d->log[i].pos, ==, i);
        done[i] = d->log[i].at;
    }
    dev_free(d);

    /* Looking at it all the time makes no difference. */
    d = dev_new(&costs, 256);
    for (int i = 0; i < 256; i++) {
        put(d, i, i % 50 == 49 ? OP_SYNC : OP_INV, i % 7);
    }
    ring(d, 256, 0);
    for (int64_t t = 0; t < 5000; t++) {
        run_until(d, t * NS);
    }
    g_assert_cmpint(d->n, ==, 256);
    for (int i = 0; i < 256; i++) {
        g_assert_cmpint(d->log[i].at, ==, done[i]);
    }
    dev_free(d);
}

/* Few timers: planning ahead is what keeps the host's cost low. */
static void test_timers(void)
{
    Dev *d = dev_new(&(QueueCosts) { .depth = 1, .remote_depth = 1 }, 256);
    int n = 0;

    for (int i = 0; i < 255; i++) {
        put(d, i, OP_INV, 10);
    }
    put(d, 255, OP_SYNC, 10);
    ring(d, 256, 0);
    while (d->armed != QUEUE_ENGINE_NEVER) {
        n++;
        run_until(d, d->armed);
    }
    g_assert_cmpint(d->n, ==, 256);
    g_assert_cmpint(n, <=, 2 + 256 / (QUEUE_ENGINE_INFLIGHT / 2));
    dev_free(d);
}

static void test_entries(void)
{
    QueueCosts costs = { .depth = 4, .entry = 5, .remote_depth = 1 };
    Dev *d = dev_new(&costs, 256);

    d->removes = 10;
    put(d, 0, OP_INV, 100);
    put(d, 1, OP_INV, 100);
    put(d, 2, OP_SYNC, 0);
    ring(d, 3, 0);
    run_until(d, 10000 * NS);
    /* It takes effect, and then takes 10 times 5 cycles more, alone. */
    assert_log(d, 0, OP_INV, 100 * NS);
    assert_log(d, 1, OP_INV, 250 * NS);
    assert_log(d, 2, OP_SYNC, 300 * NS);
    g_assert_cmpint(d->e.stats.removed, ==, 20);
    dev_free(d);
}

static void test_stop(void)
{
    QueueCosts costs = { .depth = 1, .remote_depth = 1 };
    Dev *d = dev_new(&costs, 256);

    g_assert_true(queue_engine_stop(&d->e, 0));
    g_assert_cmpint(d->n_stopped, ==, 0);

    queue_engine_enable(&d->e, 511, 256, 16, 0, 0);
    for (int i = 0; i < 3; i++) {
        put(d, i, OP_INV, 100);
    }
    ring(d, 3, 0);
    run_until(d, 50 * NS);
    /* What runs is completed, the rest not begun. */
    g_assert_false(queue_engine_stop(&d->e, d->now));
    run_until(d, 99 * NS);
    g_assert_cmpint(d->n_stopped, ==, 0);
    run_until(d, 1000 * NS);
    g_assert_cmpint(d->n_stopped, ==, 1);
    g_assert_cmpint(d->n, ==, 1);
    g_assert_cmpint(d->head, ==, 1);
    g_assert_false(d->e.running);

    /* A reset forgets all. */
    queue_engine_enable(&d->e, 511, 256, 16, 1, d->now);
    ring(d, 3, 0);
    queue_engine_reset(&d->e);
    g_assert_cmpint(d->armed, ==, QUEUE_ENGINE_NEVER);
    run_until(d, 10000 * NS);
    g_assert_cmpint(d->n, ==, 1);
    dev_free(d);
}

/* A tail out of nowhere must neither crash nor hang. */
static void test_hostile(void)
{
    QueueCosts costs = { .doorbell = 7, .fetch = 3, .depth = 2,
                         .remote_depth = 1 };
    Dev *d = dev_new(&costs, 256);
    GRand *r = g_rand_new_with_seed(1);

    for (int i = 0; i < RING; i++) {
        put(d, i, g_rand_int_range(r, 0, 10), g_rand_int_range(r, 0, 50));
    }
    for (int i = 0; i < 200000; i++) {
        uint32_t what = g_rand_int_range(r, 0, 100);

        if (what == 0) {
            queue_engine_stop(&d->e, d->now);
        } else if (what == 1) {
            queue_engine_reset(&d->e);
        }
        if (!d->e.running) {
            queue_engine_enable(&d->e, 511, 256,
                                g_rand_boolean(r) ? 16 : 32,
                                g_rand_int(r), d->now);
        }
        if (what < 50) {
            ring(d, g_rand_int(r), g_rand_int_range(r, -2, 6));
        } else if (what < 70) {
            queue_engine_restart(&d->e, d->now);
        } else {
            run_until(d, d->now + g_rand_int_range(r, 0, 5000) * 100);
        }
        g_assert_true(queue_engine_loaded(&d->e));
    }
    g_rand_free(r);
    dev_free(d);
}

/* More doorbells than are told apart: the last ones count as one. */
static void test_doorbells(void)
{
    QueueCosts costs = { .doorbell = 1000000, .depth = 1, .remote_depth = 1 };
    Dev *d = dev_new(&costs, 1024);
    /* Those of commands that are planned are forgotten. */
    const int n = QUEUE_ENGINE_INFLIGHT + QUEUE_ENGINE_DOORBELLS + 288;
    uint64_t total = 0;

    for (int i = 0; i < n; i++) {
        put(d, i, OP_INV, 1);
        ring(d, i + 1, i % 4);
    }
    g_assert_cmpint(d->e.n_doorbells, ==, QUEUE_ENGINE_DOORBELLS);
    run_until(d, 10000000LL * NS);
    g_assert_cmpint(d->n, ==, n);
    for (int i = 0; i < 4; i++) {
        g_assert_cmpint(d->e.cpus[i].doorbells, ==, n / 4);
        total += d->e.cpus[i].commands;
    }
    g_assert_cmpint(total, ==, n);
    dev_free(d);
}

static void test_cycles(void)
{
    Dev *d = dev_new(&free_of_charge, 8);

    /* 3 GHz: 333.33 ps */
    d->e.period = (1ULL << 32) / 3;
    g_assert_cmpint(queue_engine_ps(&d->e, 3), ==, 999);
    g_assert_cmpint(queue_engine_ps(&d->e, 3000000), ==, 999999999);
    /* 1 MHz, the slowest */
    d->e.period = 1000ULL << 32;
    g_assert_cmpint(queue_engine_ps(&d->e, 1), ==, 1000000);
    g_assert_cmpint(queue_engine_ps(&d->e, UINT32_MAX), ==,
                    UINT32_MAX * 1000000LL);
    dev_free(d);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    g_test_add_func("/iommu-queue/single", test_single);
    g_test_add_func("/iommu-queue/depth", test_depth);
    g_test_add_func("/iommu-queue/lines", test_lines);
    g_test_add_func("/iommu-queue/line-merge", test_line_merge);
    g_test_add_func("/iommu-queue/fence", test_fence);
    g_test_add_func("/iommu-queue/remote", test_remote);
    g_test_add_func("/iommu-queue/timeout", test_timeout);
    g_test_add_func("/iommu-queue/fault", test_fault);
    g_test_add_func("/iommu-queue/late-fault", test_late_fault);
    g_test_add_func("/iommu-queue/wrap-full", test_wrap_full);
    g_test_add_func("/iommu-queue/long", test_long);
    g_test_add_func("/iommu-queue/timers", test_timers);
    g_test_add_func("/iommu-queue/entries", test_entries);
    g_test_add_func("/iommu-queue/stop", test_stop);
    g_test_add_func("/iommu-queue/hostile", test_hostile);
    g_test_add_func("/iommu-queue/doorbells", test_doorbells);
    g_test_add_func("/iommu-queue/cycles", test_cycles);

    return g_test_run();
}
