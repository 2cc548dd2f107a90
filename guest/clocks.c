// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the CPUs' clocks look like to a guest: does a fixed piece of work take
 * the same time on a CPU alone and on each of many busy ones, and does time
 * ever run backwards between two CPUs that pass a lock?
 *
 * Reads the counter itself (TSC, CNTVCT_EL0), not a clock that the kernel has
 * smoothed.
 */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "clocks.h"

#define WORK_LOOPS 1000000
#define WORK_TRIES 3		/* the fastest is free of interrupts */
#define LOCK_ROUNDS 200

/* Of the lab port, as words. */
#define PORT_ID (0x000 / 4)
#define PORT_REGION_BEGIN (0x020 / 4)
#define PORT_REGION_END (0x024 / 4)
#define COSTS_REGION 2
#define COSTS_READS 1000
#define WAITERS_WORKS 20

static inline uint64_t counter(void)
{
#if defined(__x86_64__)
	uint32_t lo, hi;

	__asm__ volatile("lfence; rdtsc" : "=a"(lo), "=d"(hi) : : "memory");
	return (uint64_t)hi << 32 | lo;
#elif defined(__aarch64__)
	uint64_t val;

	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(val) : : "memory");
	return val;
#endif
}

static inline void relax(void)
{
#if defined(__x86_64__)
	__asm__ volatile("pause" : : : "memory");
#elif defined(__aarch64__)
	__asm__ volatile("yield" : : : "memory");
#endif
}

static uint64_t work(void)
{
	uint64_t best = UINT64_MAX;

	for (int try = 0; try < WORK_TRIES; try++) {
		uint64_t start = counter();

		for (unsigned long i = 0; i < WORK_LOOPS; i++)
			__asm__ volatile("" : "+r"(i));
		start = counter() - start;
		best = start < best ? start : best;
	}
	return best;
}

void costs_run(volatile uint32_t *port, struct costs *out)
{
	port[PORT_REGION_BEGIN] = COSTS_REGION;
	out->loop = work();
	out->reads = COSTS_READS;
	out->mmio = counter();
	for (int i = 0; i < COSTS_READS; i++)
		(void)port[PORT_ID];
	out->mmio = counter() - out->mmio;
	port[PORT_REGION_END] = COSTS_REGION;
}

struct shared {
	unsigned int cpus;
	atomic_uint ready;
	atomic_bool lock;
	uint64_t last;		/* under lock */
	uint64_t backwards;	/* under lock */
};

struct thread {
	pthread_t id;
	unsigned int cpu;
	struct shared *shared;
	uint64_t busy;
};

static void barrier(struct shared *s, unsigned int n)
{
	atomic_fetch_add(&s->ready, 1);
	while (atomic_load(&s->ready) < n)
		relax();
}

static void *run(void *arg)
{
	struct thread *t = arg;
	struct shared *s = t->shared;

	barrier(s, s->cpus);
	t->busy = work();

	barrier(s, 2 * s->cpus);
	for (int i = 0; i < LOCK_ROUNDS; i++) {
		uint64_t now;

		while (atomic_exchange(&s->lock, true))
			relax();
		now = counter();
		if (now < s->last)
			s->backwards++;
		s->last = now;
		atomic_store(&s->lock, false);
	}
	return NULL;
}

bool clocks_run(unsigned int cpus, struct clocks *out)
{
	struct shared shared = { .cpus = cpus };
	struct thread *threads = calloc(cpus, sizeof(*threads));
	pthread_attr_t attr;
	cpu_set_t set;
	unsigned int started;

	if (!threads)
		return false;
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof(set), &set);
	out->alone = work();
	out->busy_min = UINT64_MAX;
	out->busy_max = 0;

	pthread_attr_init(&attr);
	for (started = 0; started < cpus; started++) {
		struct thread *t = &threads[started];

		t->cpu = started;
		t->shared = &shared;
		CPU_ZERO(&set);
		CPU_SET(started, &set);
		pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
		if (pthread_create(&t->id, &attr, run, t))
			return false;	/* /init ends the machine */
	}
	for (unsigned int i = 0; i < cpus; i++) {
		pthread_join(threads[i].id, NULL);
		if (threads[i].busy < out->busy_min)
			out->busy_min = threads[i].busy;
		if (threads[i].busy > out->busy_max)
			out->busy_max = threads[i].busy;
	}
	out->reads = (uint64_t)cpus * LOCK_ROUNDS;
	out->backwards = shared.backwards;
	pthread_attr_destroy(&attr);
	free(threads);
	return true;
}

/* Wait as Linux does: a PAUSE loop on x86, WFE for the line on arm64. */
static void wait_for(atomic_uint *word, unsigned int value)
{
#if defined(__aarch64__)
	unsigned int now;

	for (;;) {
		__asm__ volatile("sevl\n\twfe\n\tldaxr %w0, %1"
				 : "=&r"(now) : "Q"(*word) : "memory");
		if (now == value)
			return;
		__asm__ volatile("wfe" : : : "memory");
	}
#else
	while (atomic_load(word) != value)
		relax();
#endif
}

struct waiters {
	atomic_uint waiting;
	atomic_uint done;
};

static void *wait_for_done(void *arg)
{
	struct waiters *w = arg;

	atomic_fetch_add(&w->waiting, 1);
	wait_for(&w->done, 1);
	return NULL;
}

bool waiters_run(unsigned int cpus, volatile uint32_t *port, uint64_t *ticks)
{
	struct waiters w = { 0 };
	pthread_t *threads = calloc(cpus, sizeof(*threads));
	pthread_attr_t attr;
	cpu_set_t set;

	if (!threads)
		return false;
	pthread_attr_init(&attr);
	for (unsigned int i = cpus; i-- > 0;) {
		CPU_ZERO(&set);
		CPU_SET(i, &set);
		if (!i)
			sched_setaffinity(0, sizeof(set), &set);
		pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
		if (i && pthread_create(&threads[i], &attr, wait_for_done, &w))
			return false;	/* /init ends the machine */
	}
	wait_for(&w.waiting, cpus - 1);

	port[PORT_REGION_BEGIN] = COSTS_REGION;
	*ticks = counter();
	for (int i = 0; i < WAITERS_WORKS; i++)
		work();
	*ticks = counter() - *ticks;
	port[PORT_REGION_END] = COSTS_REGION;

	atomic_store(&w.done, 1);
	for (unsigned int i = 1; i < cpus; i++)
		pthread_join(threads[i], NULL);
	pthread_attr_destroy(&attr);
	free(threads);
	return true;
}
