/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef CLOCKS_H
#define CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

/* In ticks of the counter that user space reads. */
struct clocks {
	uint64_t alone;		/* the work, on one busy CPU */
	uint64_t busy_min;	/* the same, on all CPUs at once */
	uint64_t busy_max;
	uint64_t reads;		/* of the counter under a lock ... */
	uint64_t backwards;	/* ... that were smaller than the one before */
};

/*
 * Runs a thread on each of CPUs 0..@cpus-1; returns false if one cannot be
 * started.
 */
bool clocks_run(unsigned int cpus, struct clocks *out);

/* In ticks of the same counter, measured in a region of the lab port. */
struct costs {
	uint64_t loop;		/* the work of struct clocks */
	uint64_t reads;		/* of a register of the port ... */
	uint64_t mmio;		/* ... and what all of them took */
};

/* Measures on the calling CPU; @port is the port's register page. */
void costs_run(volatile uint32_t *port, struct costs *out);

/*
 * CPU 0 works in a region of the lab port while all others wait for it in a
 * polling loop; returns false if their threads cannot be started.  @ticks is
 * what CPU 0's work took.
 */
bool waiters_run(unsigned int cpus, volatile uint32_t *port, uint64_t *ticks);

#endif
