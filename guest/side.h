/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a second process does to the SMMUs' command queues while the benchmark
 * runs, from the last CPU but one.
 */
#ifndef SIDE_H
#define SIDE_H

#include <stdbool.h>

enum side {
	SIDE_NONE,
	SIDE_ILLEGAL,	/* insert illegal commands */
	SIDE_SWITCH,	/* switch among all modes of the queue */
};

/* Read the name of one; false if there is none. */
bool side_parse(const char *s, enum side *side);

/*
 * Start it; the machine has @cpus CPUs.  The interrupt by which an SMMU
 * reports an error goes to the last of them.  NULL, or what went wrong.
 */
const char *side_start(enum side side, unsigned int cpus);

/*
 * End it.  Returns how often it has done it, or -1 if it could not; *@why is
 * then the errno value.
 */
long side_stop(int *why);

#endif /* SIDE_H */
