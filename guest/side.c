// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE

#include "side.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAB "/sys/kernel/debug/iommulab"
#define PAUSE_US 200

/* Shared with the child. */
static struct {
	long done;
	int error;	/* errno value of what failed */
} *shared;

static pid_t child;

static const char *const names[] = {
	[SIDE_NONE] = "none",
	[SIDE_ILLEGAL] = "illegal",
	[SIDE_SWITCH] = "switch",
};

bool side_parse(const char *s, enum side *side)
{
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(s, names[i])) {
			*side = i;
			return true;
		}
	}
	return false;
}

/* Write to a file in one call; 0 or an errno value. */
static int put(const char *path, const char *s)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), error = 0;

	if (fd < 0)
		return errno;
	if (write(fd, s, strlen(s)) < 0)
		error = errno;
	close(fd);
	return error;
}

static void account(int error)
{
	if (error)
		shared->error = error;
	else
		shared->done++;
	usleep(PAUSE_US);
}

static void insert_illegal(void)
{
	glob_t found;

	if (glob(LAB "/arm-smmu-v3/*/illegal", 0, NULL, &found)) {
		shared->error = ENOENT;
		return;
	}
	while (!shared->error)
		account(put(found.gl_pathv[0], "1"));
}

static void switch_modes(void)
{
	char line[256], modes[16][32];
	unsigned int n = 0;
	FILE *f = fopen(LAB "/modes", "re");

	while (f && n < 16 && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "cmdq %31s", modes[n]) == 1)
			n++;
	}
	if (!n)
		shared->error = ENOENT;
	for (unsigned int i = 0; !shared->error; i++)
		account(put(LAB "/cmdq", modes[i % n]));
}

static void pin(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Let the SMMUs report errors to this CPU, whose work is not to wait. */
static bool route_errors(unsigned int cpu)
{
	FILE *f = fopen("/proc/interrupts", "re");
	char line[4096], path[64], text[16];
	bool routed = false;
	unsigned int irq;

	while (f && fgets(line, sizeof(line), f)) {
		if (!strstr(line, "arm-smmu-v3-gerror") ||
		    sscanf(line, " %u:", &irq) != 1)
			continue;
		snprintf(path, sizeof(path), "/proc/irq/%u/smp_affinity_list",
			 irq);
		snprintf(text, sizeof(text), "%u", cpu);
		routed = !put(path, text);
	}
	if (f)
		fclose(f);
	return routed;
}

const char *side_start(enum side side, unsigned int cpus)
{
	if (side == SIDE_NONE)
		return NULL;
	if (cpus < 3)
		return "needs three CPUs";
	if (side == SIDE_ILLEGAL && !route_errors(cpus - 1))
		return "cannot route the SMMU's error interrupt";

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return "no memory";

	child = fork();
	if (child < 0)
		return "cannot fork";
	if (!child) {
		pin(cpus - 2);
		if (side == SIDE_ILLEGAL)
			insert_illegal();
		else
			switch_modes();
		_exit(0);
	}
	return NULL;
}

long side_stop(int *why)
{
	if (child <= 0)
		return 0;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	*why = shared->error;
	return shared->error ? -1 : shared->done;
}
