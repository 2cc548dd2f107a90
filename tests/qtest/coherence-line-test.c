/*
 * The cost model of a cache line against closed forms
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "../../accel/tcg/coherence-line.h"

/* Four CPUs: two sockets of two. */
static const CoherenceProfile profile = {
    .per_core = 1, .per_cluster = 1, .per_die = 2, .per_socket = 2,
    .transfer = { 9000, 36000, 36000, 81000, 150000 },
    .home = 60000,
    .read_occupancy = 9000,
    .atomic = 5000,
    .store_buffer = 2,
};

typedef struct Fixture {
    CoherenceModel m;
    CoherenceLine line;
    int64_t now[64];
} Fixture;

static void set_up(Fixture *f, const CoherenceProfile *p, unsigned n)
{
    coherence_model_init(&f->m, p, n);
    coherence_line_init(&f->line);
    memset(f->now, 0, sizeof(f->now));
}

static int64_t use(Fixture *f, int cpu, CoherenceOp op)
{
    CoherenceCost c = coherence_line_access(&f->m, &f->line, cpu, op,
                                            f->now[cpu]);
    int64_t took = c.wait + c.transfer + c.atomic;

    f->now[cpu] += took;
    return took;
}

static void test_ping_pong(void)
{
    for (int a = 0; a < 4; a++) {
        for (int b = 0; b < 4; b++) {
            int64_t way = a == b ? 0 : a / 2 == b / 2 ? 36000 : 150000;
            Fixture f;

            set_up(&f, &profile, 4);
            g_assert_cmpint(coherence_latency(&f.m, a, b), ==, way);
            use(&f, a, COHERENCE_ATOMIC);
            for (int i = 0; i < 10 && a != b; i++) {
                f.now[b] = f.now[a];
                g_assert_cmpint(use(&f, b, COHERENCE_ATOMIC), ==, way + 5000);
                f.now[a] = f.now[b];
                g_assert_cmpint(use(&f, a, COHERENCE_ATOMIC), ==, way + 5000);
            }
            coherence_model_destroy(&f.m);
        }
    }
}

/* The CPU with the smallest clock is next, as in the scheduler. */
static int next_cpu(Fixture *f, unsigned n)
{
    int cpu = 0;

    for (unsigned i = 1; i < n; i++) {
        if (f->now[i] < f->now[cpu]) {
            cpu = i;
        }
    }
    return cpu;
}

static void test_fetch_add(void)
{
    const unsigned n = 32, ops = 10000;
    CoherenceProfile p = profile;
    Fixture f;

    p.per_die = p.per_socket = n;
    p.contended_atomic = 20000;
    set_up(&f, &p, n);
    for (unsigned i = 0; i < ops; i++) {
        use(&f, next_cpu(&f, n), COHERENCE_ATOMIC);
    }
    /* One over the occupancy: transfer, operation, contention. */
    g_assert_cmpint(ABS(f.line.busy_until / ops - 61000), <, 100);
    g_assert_cmpuint(f.line.stats.accesses[COHERENCE_ATOMIC], ==, ops);
    coherence_model_destroy(&f.m);
}

static void test_cas_attempts(void)
{
    const unsigned n = 16;
    unsigned seen[16] = {}, value = 0, ok = 0, tries = 0;
    CoherenceProfile p = profile;
    Fixture f;

    p.per_die = p.per_socket = n;
    set_up(&f, &p, n);
    while (ok < 1000) {
        int cpu = next_cpu(&f, n);

        use(&f, cpu, COHERENCE_ATOMIC);
        tries++;
        if (seen[cpu] == value) {
            value++;
            ok++;
        }
        seen[cpu] = value;
    }
    g_assert_cmpfloat(ABS((double)tries / ok - n), <, 0.05 * n);
    coherence_model_destroy(&f.m);
}

static void test_reads_share(void)
{
    Fixture f;

    set_up(&f, &profile, 4);
    use(&f, 0, COHERENCE_ATOMIC);
    f.now[1] = f.now[2] = f.now[0];
    g_assert_cmpint(use(&f, 1, COHERENCE_LOAD), ==, 36000);
    /* Overlaps but for the occupancy. */
    g_assert_cmpint(use(&f, 2, COHERENCE_LOAD), ==, 9000 + 150000);
    g_assert_cmpint(use(&f, 1, COHERENCE_LOAD), ==, 0);
    g_assert_true(coherence_line_hit(&f.line, 0, COHERENCE_LOAD));
    g_assert_false(coherence_line_hit(&f.line, 0, COHERENCE_ATOMIC));
    g_assert_false(coherence_line_hit(&f.line, 3, COHERENCE_LOAD));
    /* The copy farthest away decides. */
    f.now[0] = 1000000;
    g_assert_cmpint(use(&f, 0, COHERENCE_ATOMIC), ==, 150000 + 5000);
    g_assert_false(coherence_line_hit(&f.line, 1, COHERENCE_LOAD));
    coherence_model_destroy(&f.m);
}

static void test_store_buffer(void)
{
    Fixture f;
    CoherenceLine other[3];
    CoherenceCost c;

    set_up(&f, &profile, 4);
    for (int i = 0; i < 3; i++) {
        coherence_line_init(&other[i]);
        coherence_line_access(&f.m, &other[i], 1, COHERENCE_ATOMIC, 0);
    }
    for (int i = 0; i < 2; i++) {
        c = coherence_line_access(&f.m, &other[i], 0, COHERENCE_STORE,
                                  100000);
        g_assert_cmpint(c.wait + c.transfer + c.atomic, ==, 0);
        g_assert_cmpint(other[i].busy_until, ==, 136000);
    }
    /* The buffer is full. */
    c = coherence_line_access(&f.m, &other[2], 0, COHERENCE_STORE, 100000);
    g_assert_cmpint(c.wait, ==, 36000);
    g_assert_cmpint(other[2].busy_until, ==, 172000);
    /* An atomic operation waits for it to drain. */
    c = coherence_line_access(&f.m, &f.line, 0, COHERENCE_ATOMIC, 136000);
    g_assert_cmpint(c.wait, ==, 36000);
    coherence_model_destroy(&f.m);
}

static void test_far_atomics(void)
{
    const unsigned n = 32, ops = 10000;
    CoherenceProfile p = profile;
    Fixture f;

    p.per_die = p.per_socket = n;
    p.far_atomics = 1;
    p.far_occupancy = 15000;
    set_up(&f, &p, n);
    for (unsigned i = 0; i < ops; i++) {
        use(&f, next_cpu(&f, n), COHERENCE_ATOMIC);
    }
    /* The line stays where it is and serves one after the other. */
    g_assert_cmpint(f.line.owner, ==, COHERENCE_HOME);
    g_assert_cmpint(ABS(f.line.busy_until / ops - 15000), <, 100);
    coherence_model_destroy(&f.m);
}

static void test_device_write(void)
{
    Fixture f;
    uint32_t version;

    set_up(&f, &profile, 4);
    use(&f, 0, COHERENCE_LOAD);
    version = f.line.version;
    coherence_line_device_write(&f.line, 1000);
    g_assert_cmpuint(f.line.version, !=, version);
    f.now[0] = 1000;
    g_assert_cmpint(use(&f, 0, COHERENCE_LOAD), ==, 60000);
    coherence_model_destroy(&f.m);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/coherence/ping-pong", test_ping_pong);
    g_test_add_func("/coherence/fetch-add", test_fetch_add);
    g_test_add_func("/coherence/cas-attempts", test_cas_attempts);
    g_test_add_func("/coherence/reads-share", test_reads_share);
    g_test_add_func("/coherence/store-buffer", test_store_buffer);
    g_test_add_func("/coherence/far-atomics", test_far_atomics);
    g_test_add_func("/coherence/device-write", test_device_write);
    return g_test_run();
}
