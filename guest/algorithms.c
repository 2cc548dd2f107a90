// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of the kernel's algorithms and of how they are chosen; see
 * algorithms.h.
 */

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algorithms.h"
#include "init.h"

#define GROUP "/sys/bus/pci/devices/%s/iommu_group/iommulab_%s"
#define ROUNDS 8

static const char *const iova_modes[] = {
	"rcache", "rbtree46", "rbtree612", "rcache47", "pools:1", "pools:16",
	"poolslarge:4",
};

static const char *const flush_modes[] = {
	"fq", "strict", "global250", "percpu250", "single",
};

static const char *const vtd_map_modes[] = {
	"pages", "perpage511", "syncmap512", "mapsg",
};

static const char *const vtd_flush_modes[] = { "tags", "direct" };

/* Those of groups; not each machine has each. */
static const struct knob {
	const char *name;
	const char *const *modes;
	unsigned int n;
} knobs[] = {
	{ "iova", iova_modes, sizeof(iova_modes) / sizeof(*iova_modes) },
	{ "flush", flush_modes, sizeof(flush_modes) / sizeof(*flush_modes) },
	{ "vtd_map", vtd_map_modes,
	  sizeof(vtd_map_modes) / sizeof(*vtd_map_modes) },
	{ "vtd_flush", vtd_flush_modes,
	  sizeof(vtd_flush_modes) / sizeof(*vtd_flush_modes) },
};

#define NR_KNOBS (sizeof(knobs) / sizeof(*knobs))

/* The file of a group's knob; false if this machine has no such knob. */
static bool group_knob(char *path, const char *address, const char *name)
{
	snprintf(path, PATH_MAX, GROUP, address, name);
	return !access(path, F_OK);
}

void algorithms_list(void)
{
	char text[256], line[320], *mode, *help;
	FILE *f = fopen(LAB "/modes", "re");

	if (!f)
		fail("the kernel has no list of algorithms");
	while (fgets(text, sizeof(text), f)) {
		text[strcspn(text, "\n")] = '\0';
		mode = strchr(text, ' ');
		help = mode ? strchr(mode + 1, ' ') : NULL;
		if (!help)
			fail("cannot read the list of algorithms: %s", text);
		*mode++ = *help++ = '\0';
		snprintf(line, sizeof(line),
			 "{\"iommulab\":\"mode\",\"knob\":\"%s\","
			 "\"mode\":\"%s\",\"help\":\"%s\"}\n",
			 text, mode, help);
		put_line(line);
	}
	fclose(f);
}

void algorithms_iova(unsigned int ops)
{
	static const char file[] = LAB "/iova_test";
	char text[256], line[512], *item, *value, *rest;
	int n;

	for (unsigned int i = 0; i < knobs[0].n; i++) {
		snprintf(text, sizeof(text), "%s %u", iova_modes[i], ops);
		if (!write_file(file, text)) {
			const char *message = kernel_message("iova_test: ");

			fail("%s: %s: %s", iova_modes[i], strerror(errno),
			     message ?: "no message");
		}
		if (!read_line(file, text, sizeof(text)))
			fail("cannot read %s", file);

		rest = text;
		n = snprintf(line, sizeof(line),
			     "{\"iommulab\":\"iova_test\",\"mode\":\"%s\"",
			     strsep(&rest, " "));
		while ((item = strsep(&rest, " "))) {
			value = strchr(item, '=');
			if (!value)
				fail("%s: cannot read %s", file, item);
			*value++ = '\0';
			n += snprintf(line + n, sizeof(line) - n,
				      ",\"%s\":%s", item, value);
		}
		snprintf(line + n, sizeof(line) - n, "}\n");
		put_line(line);
	}
}

/* kB that the kernel has for itself, of the kinds a mode takes. */
static long kernel_memory(void)
{
	static const char *const kinds[] = {
		"SUnreclaim:", "VmallocUsed:", "Percpu:",
	};
	char text[128], kind[64];
	long sum = 0, value;
	FILE *f = fopen("/proc/meminfo", "re");

	if (!f)
		fail("cannot open /proc/meminfo");
	while (fgets(text, sizeof(text), f)) {
		if (sscanf(text, "%63s %ld", kind, &value) != 2)
			continue;
		for (unsigned int i = 0; i < 3; i++) {
			if (!strcmp(kind, kinds[i]))
				sum += value;
		}
	}
	fclose(f);
	return sum;
}

static void must_be(const char *path, const char *mode)
{
	char now[64];

	if (!read_line(path, now, sizeof(now)) || strcmp(now, mode))
		fail("%s is %s, not %s", path, now, mode);
}

/* A change that must fail with this error and change nothing. */
static void refused(const char *path, const char *mode, int error,
		    const char *words)
{
	char before[64];

	if (!read_line(path, before, sizeof(before)))
		fail("cannot read %s", path);
	if (write_file(path, mode))
		fail("%s took \"%s\"", path, mode);
	if (errno != error)
		fail("%s: \"%s\": %s, not %s", path, mode, strerror(errno),
		     strerror(error));
	must_be(path, before);
	if (!kernel_message(words))
		fail("%s: \"%s\": the log does not have: %s", path, mode, words);
}

/* Change to a mode while one allocation fails, until none does: how many. */
static unsigned int inject(const char *path, const char *mode)
{
	char before[64], nth[16], left[16];
	unsigned int n;

	if (!read_line(path, before, sizeof(before)))
		fail("cannot read %s", path);
	for (n = 1; ; n++) {
		snprintf(nth, sizeof(nth), "%u", n);
		if (!write_file(LAB "/fail_nth", nth))
			fail("cannot set fail_nth: %s", strerror(errno));
		if (write_file(path, mode))
			break;
		if (errno != ENOMEM)
			fail("%s: \"%s\": %s", path, mode, strerror(errno));
		must_be(path, before);
	}
	if (!read_line(LAB "/fail_nth", left, sizeof(left)) ||
	    !strcmp(left, "0"))
		fail("%s: \"%s\" is there in spite of a failure", path, mode);
	write_file(LAB "/fail_nth", "0");
	must_be(path, mode);
	return n - 1;
}

static unsigned int inject_all(const char *address,
			       void (*maps)(const char *address))
{
	unsigned int injected = 0;
	char path[PATH_MAX];

	for (unsigned int k = 0; k < NR_KNOBS; k++) {
		if (!group_knob(path, address, knobs[k].name))
			continue;
		/* From each mode to the next, and from the last to the first. */
		for (unsigned int i = 1; i <= knobs[k].n; i++) {
			unbind_driver(address);
			injected += inject(path, knobs[k].modes[i % knobs[k].n]);
			bind_driver(address);
			maps(address);
		}
	}
	return injected;
}

void algorithms_switch(const char *address, void (*maps)(const char *address))
{
	unsigned int injected = 0, tried = 0;
	char path[PATH_MAX], line[160];
	long leaked = 0;

	for (unsigned int k = 0; k < NR_KNOBS; k++) {
		if (!group_knob(path, address, knobs[k].name))
			continue;
		tried++;
		refused(path, "nonsense", EINVAL,
			"\"nonsense\": no such mode (valid: ");
		refused(path, knobs[k].modes[1], EBUSY,
			"in use, unbind the driver first (valid: ");
		snprintf(path, sizeof(path), LAB "/%s", knobs[k].name);
		refused(path, "nonsense", EINVAL, "no such mode");
	}
	snprintf(path, sizeof(path), GROUP, address, "iova");
	refused(path, "pools:3", EINVAL, "\"pools:3\": no such mode");
	refused(path, "pools:", EINVAL, "\"pools:\": no such mode");
	refused(path, "rcache:1", EINVAL, "\"rcache:1\": no such mode");
	refused(path, "0123456789abcdef0123456789abcdef", EINVAL,
		"no mode has so long a name");
	refused(LAB "/swiotlb", "lifo", EBUSY,
		"swiotlb: can only be chosen at boot (valid: area, ");
	refused(LAB "/swiotlb", "nonsense", EINVAL, "no such mode");
	maps(address);

	/*
	 * What leaks does so in each round; that slabs and caches of pages
	 * grow and shrink, the first time most, does not.
	 */
	inject_all(address, maps);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		long before = kernel_memory(), more;

		injected = inject_all(address, maps);
		more = kernel_memory() - before;
		if (!i || more < leaked)
			leaked = more;
	}

	snprintf(line, sizeof(line),
		 "{\"iommulab\":\"switch\",\"knobs\":%u,\"injected\":%u,"
		 "\"leaked_kb\":%ld}\n", tried, injected, leaked);
	put_line(line);
}

/* How a device that uses what was unmapped is watched, and for how long. */
struct watch {
	unsigned int rounds;
	unsigned int interval_ns;
	unsigned int wait_us;
};

static void put_stale(const char *address, const char *domain, const char *knob,
		      const char *mode, struct watch watch)
{
	char path[PATH_MAX], text[512], line[768];

	snprintf(path, sizeof(path), LAB "/stale-%s", address);
	snprintf(text, sizeof(text), "%u %u %u", watch.rounds,
		 watch.interval_ns, watch.wait_us);
	if (!write_file(path, text))
		fail("%s, %s: %s: %s", knob, mode, path, strerror(errno));
	if (!read_line(path, text, sizeof(text)))
		fail("cannot read %s", path);
	snprintf(line, sizeof(line),
		 "{\"iommulab\":\"stale\",\"domain\":\"%s\",\"knob\":\"%s\","
		 "\"mode\":\"%s\",\"seen\":%s}\n", domain, knob, mode, text);
	put_line(line);
}

/* Each mode of each knob that can be chosen while the machine runs. */
static void stale_modes(const char *address, const char *domain,
			unsigned int rounds)
{
	char text[256], knob[32], mode[32], path[PATH_MAX], old[64];
	FILE *f = fopen(LAB "/modes", "re");

	if (!f)
		fail("the kernel has no list of algorithms");
	while (fgets(text, sizeof(text), f)) {
		bool strict = !strcmp(domain, "DMA");
		struct watch watch = { rounds, 100, 100000 };

		if (sscanf(text, "%31s %31s", knob, mode) != 2)
			fail("cannot read the list of algorithms: %s", text);
		if (!strcmp(knob, "swiotlb"))
			continue;
		knob_path(path, address, knob);

		/*
		 * Deferred flushes come after 10 ms or, of "single", after a
		 * second: slower, so that the accesses until then are not too
		 * many, and each access to each shape once.
		 */
		if (!strcmp(knob, "flush")) {
			if (strict)
				continue;
			strict = !strcmp(mode, "strict");
		}
		if (!strict)
			watch = !strcmp(mode, "single") ?
				(struct watch){ 9, 20000, 3000000 } :
				(struct watch){ 9, 1000, 3000000 };

		if (!read_line(path, old, sizeof(old)))
			fail("cannot read %s", path);
		unbind_driver(address);
		if (!write_file(path, mode))
			fail("%s: \"%s\": %s", path, mode, strerror(errno));
		bind_driver(address);
		put_stale(address, domain, knob, mode, watch);

		unbind_driver(address);
		if (!write_file(path, old))
			fail("%s: \"%s\": %s", path, old, strerror(errno));
		bind_driver(address);
	}
	fclose(f);
}

void algorithms_stale(const char *address, unsigned int rounds)
{
	stale_modes(address, "DMA", rounds);
	set_domain(address, "DMA-FQ");
	stale_modes(address, "DMA-FQ", rounds);
}
