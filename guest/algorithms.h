/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tests of the kernel's algorithms and of how they are chosen.
 */
#ifndef ALGORITHMS_H
#define ALGORITHMS_H

/* The kernel's own list of knobs and modes, as a line. */
void algorithms_list(void);

/* Random calls of each IOVA allocator against an oracle; a line for each. */
void algorithms_iova(unsigned int ops);

/*
 * Change the modes of a device's group, which has the benchmark's driver, in
 * all ways that must fail, and make each allocation fail that the change
 * takes.  maps() shows that the device still can; it fails if not.
 */
void algorithms_switch(const char *address, void (*maps)(const char *address));

/*
 * Whether and how long a device reaches what was unmapped, in a strict and in
 * a deferred domain, with each mode; a line for each.  The device is the lab's
 * DMA device with its own driver and has a strict domain.
 */
void algorithms_stale(const char *address, unsigned int rounds);

#endif
