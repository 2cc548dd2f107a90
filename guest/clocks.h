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

#endif
