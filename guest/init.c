// SPDX-License-Identifier: GPL-2.0-only
/*
 * /init of the guest: run one job, report it as lines of JSON and end the
 * machine.
 *
 * The job comes from the lab port and the lines go there.  Without a port
 * (physical machine, upstream QEMU) the job is on the kernel's command line,
 * the lines go to the console, between the messages of the kernel, and the
 * machine is powered off.
 *
 *   iommulab.job=JOB               see jobs; bench maps and unmaps, ready
 *                                  reports that the guest is up, no more; for
 *                                  the others see clocks.h and algorithms.h
 *   iommulab.device=VVVV:DDDD      PCI device to map for; see dma_devices
 *   iommulab.locks=KIND:CPUS:US:INSIDE,...   for locks, run one by one; see
 *                                  drivers/misc/iommulab/locks.c
 *   iommulab.mode=MODE             type of its IOMMU domain, see modes; as the
 *                                  kernel chose it if not given
 *   iommulab.bench=KEY:VALUE,...   see bench_keys
 *   iommulab.ops=N                 calls that job=iova makes, rounds of
 *                                  job=stale
 *   iommulab.counters=1            for the kernel: count; is reported
 *   iommulab.cmdq_shift=N          for the kernel: small command queues
 *   iommulab.side=NAME             see side.h
 *   iommulab.KNOB=MODE             algorithm: of the device's group, or of all
 *                                  where groups do not differ
 */

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/iommulab.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/utsname.h>
#include <termios.h>
#include <unistd.h>

#include "algorithms.h"
#include "clocks.h"
#include "init.h"
#include "side.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define PCI_DEVICES "/sys/bus/pci/devices"
#define BENCH_DRIVER "iommulab_bench"
#define DMA_DRIVER "iommulab_dma"

#define PORT_VENDOR 0x1234
#define PORT_DEVICE 0x4c41
#define PORT_SIZE 4096

#define DMA_VENDOR 0x1234
#define DMA_DEVICE 0x4c44

/* What the command line asks for. */
struct job {
	void (*run)(struct job *job);
	unsigned int vendor;
	unsigned int device;
	const char *domain;	/* type of its group's domain, or NULL */
	struct {
		char name[32];
		char mode[32];
	} knobs[16];
	unsigned int nr_knobs;
	unsigned int ops;	/* calls a test makes */
	struct iommulab_bench arg;
	char locks[4096];
	enum side side;
};

static int port_fd = -1;
static int console_fd = -1;

/* Write all of it, or return false. */
static bool write_all(int fd, const char *s, size_t n)
{
	while (n) {
		ssize_t done = write(fd, s, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		s += done;
		n -= done;
	}
	return true;
}

void put_line(const char *line)
{
	size_t n = strlen(line);

	if (port_fd >= 0 && write_all(port_fd, line, n))
		return;
	if (console_fd >= 0 && write_all(console_fd, line, n))
		tcdrain(console_fd);
}

static void put_string(FILE *f, const char *s)
{
	fputc('"', f);
	for (; *s; s++) {
		unsigned char c = *s;

		if (c < ' ' || c > '~')
			fprintf(f, "\\u%04x", c);
		else if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else
			fputc(c, f);
	}
	fputc('"', f);
}

/* End the machine; the simulator exits with the status. */
static void __attribute__((noreturn)) finish(int status)
{
	uint32_t code = status;
	char line[64];

	snprintf(line, sizeof(line), "{\"iommulab\":\"exit\",\"status\":%d}\n",
		 status);
	put_line(line);

	if (port_fd < 0 || ioctl(port_fd, IOMMULAB_IOC_EXIT, &code))
		reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

void __attribute__((noreturn, format(printf, 1, 2)))
fail(const char *format, ...)
{
	char message[1024], line[8192];
	va_list ap;
	FILE *f;

	va_start(ap, format);
	vsnprintf(message, sizeof(message), format, ap);
	va_end(ap);

	f = fmemopen(line, sizeof(line), "w");
	if (f) {
		fputs("{\"iommulab\":\"error\",\"message\":", f);
		put_string(f, message);
		fputs("}\n", f);
		fclose(f);
		put_line(line);
	}
	finish(1);
}

static void mount_on(const char *type, const char *dir)
{
	if (mount(type, dir, type, 0, NULL) && errno != EBUSY)
		fail("cannot mount %s on %s: %s", type, dir, strerror(errno));
}

static void set_up(void)
{
	/* First, so that there is somewhere to complain. */
	if (!mount("devtmpfs", "/dev", "devtmpfs", 0, NULL))
		port_fd = open("/dev/iommulab", O_RDWR | O_CLOEXEC);
	console_fd = open("/dev/console", O_WRONLY | O_NOCTTY | O_CLOEXEC);

	mount_on("proc", "/proc");
	mount_on("sysfs", "/sys");
	mount_on("debugfs", "/sys/kernel/debug");
}

bool read_line(const char *path, char *s, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, s, size - 1);
	close(fd);
	if (n < 0)
		return false;
	s[n] = '\0';
	s[strcspn(s, "\n")] = '\0';
	return true;
}

bool write_file(const char *path, const char *s)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok;

	if (fd < 0)
		return false;
	ok = write_all(fd, s, strlen(s));
	close(fd);
	return ok;
}

static const char *const dirs[] = {
	[IOMMULAB_BENCH_TO_DEVICE] = "to",
	[IOMMULAB_BENCH_FROM_DEVICE] = "from",
	[IOMMULAB_BENCH_BIDIRECTIONAL] = "bidi",
};

static const struct bench_key {
	const char *name;
	size_t offset;
	uint32_t flag;		/* the key sets this flag */
} bench_keys[] = {
	{ "threads", offsetof(struct iommulab_bench, threads), 0 },
	{ "ms", offsetof(struct iommulab_bench, duration_ms), 0 },
	{ "warmup", offsetof(struct iommulab_bench, warmup_ms), 0 },
	{ "depth", offsetof(struct iommulab_bench, depth), 0 },
	{ "size", offsetof(struct iommulab_bench, size), 0 },
	{ "sg", offsetof(struct iommulab_bench, sg), 0 },
	{ "dir", offsetof(struct iommulab_bench, dir), 0 },
	{ "compute", offsetof(struct iommulab_bench, compute_ns), 0 },
	{ "touch", offsetof(struct iommulab_bench, flags),
	  IOMMULAB_BENCH_TOUCH },
	{ "xcpu", offsetof(struct iommulab_bench, flags),
	  IOMMULAB_BENCH_XCPU },
	{ "spread", offsetof(struct iommulab_bench, flags),
	  IOMMULAB_BENCH_SPREAD },
	{ "sample", offsetof(struct iommulab_bench, sample), 0 },
	{ "small", offsetof(struct iommulab_bench, small), 0 },
};

static uint32_t parse_number(const char *key, const char *s)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(s, &end, 10);
	if (!isdigit((unsigned char)*s) || *end || errno || value > UINT32_MAX)
		fail("iommulab: %s: \"%s\" is not a number", key, s);
	return value;
}

static uint32_t parse_dir(const char *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		if (!strcmp(s, dirs[i]))
			return i;
	}
	fail("iommulab.bench: dir: \"%s\" is none of to, from, bidi", s);
}

static void parse_bench_key(struct iommulab_bench *arg, const char *key,
			    const char *value)
{
	for (size_t i = 0; i < ARRAY_SIZE(bench_keys); i++) {
		const struct bench_key *k = &bench_keys[i];
		uint32_t *field = (uint32_t *)((char *)arg + k->offset);
		uint32_t number;

		if (strcmp(key, k->name))
			continue;

		number = field == &arg->dir ? parse_dir(value)
					    : parse_number(key, value);
		if (!k->flag)
			*field = number;
		else if (number > 1)
			fail("iommulab.bench: %s: must be 0 or 1", key);
		else if (number)
			*field |= k->flag;
		else
			*field &= ~k->flag;
		return;
	}
	fail("iommulab.bench: unknown key \"%s\"", key);
}

static void parse_bench(struct iommulab_bench *arg, char *s)
{
	char *item, *value;

	while ((item = strsep(&s, ","))) {
		value = strchr(item, ':');
		if (!value)
			fail("iommulab.bench: \"%s\" is not KEY:VALUE", item);
		*value++ = '\0';
		parse_bench_key(arg, item, value);
	}
}

static void parse_device(struct job *job, const char *s)
{
	int end = 0;

	if (sscanf(s, "%4x:%4x%n", &job->vendor, &job->device, &end) != 2 ||
	    s[end])
		fail("iommulab.device: \"%s\" is not VVVV:DDDD", s);
}

static const struct {
	const char *name;
	const char *type;	/* in the group's sysfs file */
} modes[] = {
	{ "strict", "DMA" },
	{ "lazy", "DMA-FQ" },
	{ "passthrough", "identity" },
};

static void parse_mode(struct job *job, const char *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		if (!strcmp(s, modes[i].name)) {
			job->domain = modes[i].type;
			return;
		}
	}
	fail("iommulab.mode: \"%s\" is none of strict, lazy, passthrough", s);
}

static void run_ready(struct job *job);
static void run_bench(struct job *job);
static void run_clocks(struct job *job);
static void run_costs(struct job *job);
static void run_waiters(struct job *job);
static void run_locks(struct job *job);
static void run_modes(struct job *job);
static void run_iova(struct job *job);
static void run_switch(struct job *job);
static void run_stale(struct job *job);

static const struct {
	const char *name;
	void (*run)(struct job *job);
} jobs[] = {
	{ "ready", run_ready },
	{ "bench", run_bench },
	{ "clocks", run_clocks },
	{ "costs", run_costs },
	{ "waiters", run_waiters },
	{ "locks", run_locks },
	{ "modes", run_modes },
	{ "iova", run_iova },
	{ "switch", run_switch },
	{ "stale", run_stale },
};

static void parse_job(struct job *job, const char *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		if (!strcmp(s, jobs[i].name)) {
			job->run = jobs[i].run;
			return;
		}
	}
	fail("iommulab.job: \"%s\" is none of ready, bench, clocks, costs, waiters, locks, modes, iova, switch, stale",
	     s);
}

/* "iova, flush": the knobs of this kernel. */
static const char *known_knobs(void)
{
	static char names[256];
	char line[256], last[64] = "", name[64];
	FILE *f = fopen(LAB "/modes", "re");
	size_t n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63s", name) != 1 || !strcmp(name, last) ||
		    n + strlen(name) + 3 > sizeof(names))
			continue;
		n += sprintf(names + n, "%s%s", n ? ", " : "", name);
		strcpy(last, name);
	}
	if (f)
		fclose(f);
	return names;
}

/* The last choice counts. */
static void parse_knob(struct job *job, const char *name, const char *mode)
{
	char path[PATH_MAX];
	unsigned int i;

	snprintf(path, sizeof(path), LAB "/%s", name);
	if (!strcmp(name, "modes") || strchr(name, '/') || access(path, F_OK))
		fail("unknown option iommulab.%s (this kernel's knobs: %s)", name,
		     known_knobs());

	for (i = 0; i < job->nr_knobs; i++) {
		if (!strcmp(job->knobs[i].name, name))
			break;
	}
	if (i == ARRAY_SIZE(job->knobs) ||
	    strlen(name) >= sizeof(job->knobs[i].name) ||
	    strlen(mode) >= sizeof(job->knobs[i].mode))
		fail("iommulab.%s=%s: too long or too many", name, mode);
	strcpy(job->knobs[i].name, name);
	strcpy(job->knobs[i].mode, mode);
	if (i == job->nr_knobs)
		job->nr_knobs++;
}

static void parse_option(struct job *job, const char *key, char *value)
{
	if (!strcmp(key, "job")) {
		parse_job(job, value);
	} else if (!strcmp(key, "device")) {
		parse_device(job, value);
	} else if (!strcmp(key, "bench")) {
		parse_bench(&job->arg, value);
	} else if (!strcmp(key, "locks")) {
		snprintf(job->locks, sizeof(job->locks), "%s", value);
	} else if (!strcmp(key, "mode")) {
		parse_mode(job, value);
	} else if (!strcmp(key, "ops")) {
		job->ops = parse_number("ops", value);
	} else if (!strcmp(key, "side")) {
		if (!side_parse(value, &job->side))
			fail("iommulab.side: there is no \"%s\"", value);
	} else if (strcmp(key, "counters") && strcmp(key, "cmdq_shift")) {
		parse_knob(job, key, value);
	}
}

/* Take the options out of a text with spaces between them. */
static void parse_options(struct job *job, char *s)
{
	char *item, *value;

	while ((item = strsep(&s, " "))) {
		if (strncmp(item, "iommulab.", 9))
			continue;
		item += 9;
		value = strchr(item, '=');
		if (!value)
			fail("iommulab.%s needs a value", item);
		*value++ = '\0';
		parse_option(job, item, value);
	}
}

/* Defaults, then what the kernel command line and the lab port say. */
static void read_job(struct job *job)
{
	char text[4096];
	ssize_t n;

	*job = (struct job) {
		.run = run_ready,
		.ops = 50000,
		.arg = {
			.threads = sysconf(_SC_NPROCESSORS_ONLN),
			.duration_ms = 200,
			.warmup_ms = 20,
			.depth = 50,
			.size = 4096,
			.dir = IOMMULAB_BENCH_TO_DEVICE,
			.flags = IOMMULAB_BENCH_TOUCH,
			.sample = 16,
		},
	};

	if (!read_line("/proc/cmdline", text, sizeof(text)))
		fail("cannot read the kernel command line");
	parse_options(job, text);

	if (port_fd < 0)
		return;
	n = read(port_fd, text, sizeof(text) - 1);
	if (n < 0)
		fail("cannot read the job: %s", strerror(errno));
	text[n] = '\0';
	parse_options(job, text);
}

static void report_ready(void)
{
	struct utsname uts;
	char line[256];

	uname(&uts);
	snprintf(line, sizeof(line),
		 "{\"iommulab\":\"ready\",\"kernel\":\"%s\",\"cpus\":%ld}\n",
		 uts.release, sysconf(_SC_NPROCESSORS_ONLN));
	put_line(line);

	/* Up to here every job is the same: the machine may be saved now. */
	if (port_fd >= 0 && ioctl(port_fd, IOMMULAB_IOC_READY))
		fail("the lab port refuses READY: %s", strerror(errno));
}

/* The hexadecimal number in a file of a PCI device's folder, or -1. */
static long pci_id(const char *address, const char *file)
{
	char path[PATH_MAX], s[32];

	snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", address, file);
	if (!read_line(path, s, sizeof(s)))
		return -1;
	return strtol(s, NULL, 16);
}

/* The address of the first device with these identifiers, or NULL. */
static const char *find_device(unsigned int vendor, unsigned int device)
{
	struct dirent **entries;
	int n = scandir(PCI_DEVICES, &entries, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		const char *name = entries[i]->d_name;

		if (name[0] != '.' &&
		    pci_id(name, "vendor") == (long)vendor &&
		    pci_id(name, "device") == (long)device)
			return name;
	}
	return NULL;
}

/* Functions without a driver: the lab's DMA device, QEMU's pci-testdev. */
static const struct {
	unsigned int vendor;
	unsigned int device;
} dma_devices[] = {
	{ DMA_VENDOR, DMA_DEVICE },
	{ 0x1b36, 0x0005 },
};

/* The device to map for. */
static const char *find_dma_device(const struct job *job)
{
	const char *address;

	if (job->vendor) {
		address = find_device(job->vendor, job->device);
		if (!address)
			fail("no PCI device %04x:%04x", job->vendor,
			     job->device);
		return address;
	}
	for (size_t i = 0; i < ARRAY_SIZE(dma_devices); i++) {
		address = find_device(dma_devices[i].vendor,
				      dma_devices[i].device);
		if (address)
			return address;
	}
	fail("no device to map for; choose one with iommulab.device");
}

/* The one that driver_override says. */
void bind_driver(const char *address)
{
	char path[PATH_MAX], driver[64];

	snprintf(path, sizeof(path), PCI_DEVICES "/%s/driver_override",
		 address);
	if (!read_line(path, driver, sizeof(driver)))
		fail("%s has no driver chosen for it", address);
	snprintf(path, sizeof(path), "/sys/bus/pci/drivers/%s/bind", driver);
	if (!write_file(path, address))
		fail("cannot bind %s to %s: %s", address, driver,
		     strerror(errno));
}

/* Fails if it has none. */
void unbind_driver(const char *address)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), PCI_DEVICES "/%s/driver/unbind", address);
	write_file(path, address);
}

/*
 * Give the device's group the domain type.  That takes a device without a
 * driver, but one that had a driver before: on some machines a device meets
 * its IOMMU only then.
 */
void set_domain(const char *address, const char *type)
{
	char path[PATH_MAX], old[32];

	snprintf(path, sizeof(path), PCI_DEVICES "/%s/iommu_group/type",
		 address);
	if (!read_line(path, old, sizeof(old)))
		fail("%s is not behind an IOMMU: its group has no domain type",
		     address);
	if (!strcmp(old, type))
		return;

	unbind_driver(address);
	if (!write_file(path, type))
		fail("cannot change the domain of %s from %s to %s: %s",
		     address, old, type, strerror(errno));
	bind_driver(address);
}

const char *kernel_message(const char *words)
{
	static char log[1 << 16];
	char *message = NULL, *next = log;
	int n = klogctl(3, log, sizeof(log) - 1);

	if (n < 0)
		return NULL;
	log[n] = '\0';
	while ((next = strstr(next, words)))
		message = next++;
	if (message)
		message[strcspn(message, "\n")] = '\0';
	return message;
}

void knob_path(char *path, const char *address, const char *name)
{
	snprintf(path, PATH_MAX, PCI_DEVICES "/%s/iommu_group/iommulab_%s",
		 address, name);
	if (access(path, F_OK))
		snprintf(path, PATH_MAX, LAB "/%s", name);
}

/* Whether a mode as the kernel spells it is the one that was asked for. */
static bool same_mode(const char *mode, const char *wanted)
{
	size_t n = strlen(wanted);

	return !strncmp(mode, wanted, n) && (!mode[n] || mode[n] == ':');
}

/* Choose the job's algorithms for a device that has its driver. */
static void set_knobs(const struct job *job, const char *address)
{
	char path[PATH_MAX], mode[64];
	bool unbound = false;

	for (unsigned int i = 0; i < job->nr_knobs; i++) {
		const char *name = job->knobs[i].name;
		const char *wanted = job->knobs[i].mode, *message;
		int error;

		knob_path(path, address, name);
		if (!read_line(path, mode, sizeof(mode)))
			fail("cannot read %s", path);
		if (same_mode(mode, wanted))
			continue;

		if (!unbound)
			unbind_driver(address);
		unbound = true;
		if (write_file(path, wanted))
			continue;
		error = errno;
		message = kernel_message("iommulab: ");
		fail("iommulab.%s=%s: %s%s%s", name, wanted, strerror(error),
		     message ? ": " : "", message ?: "");
	}
	if (unbound)
		bind_driver(address);
}

static void bind_device(const char *address, const char *driver,
			const char *domain)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), PCI_DEVICES "/%s/driver_override",
		 address);
	if (!write_file(path, driver))
		fail("cannot set the driver of %s: %s", address,
		     strerror(errno));

	unbind_driver(address);
	bind_driver(address);
	if (domain)
		set_domain(address, domain);
}

static void put_hist(FILE *f, const char *name,
		     const struct iommulab_bench_hist *hist)
{
	const char *comma = "";

	fprintf(f, ",\"%s\":{\"count\":%llu,\"sum_ns\":%llu,\"max_ns\":%llu,"
		"\"hist\":[", name, hist->count, hist->sum_ns, hist->max_ns);
	for (unsigned int i = 0; i < IOMMULAB_HIST_BUCKETS; i++) {
		unsigned long long lower = i;

		if (!hist->bucket[i])
			continue;
		if (i >= 8)
			lower = (8ULL + i % 8) << (i / 8 - 1);
		fprintf(f, "%s[%llu,%llu]", comma, lower, hist->bucket[i]);
		comma = ",";
	}
	fputs("]}", f);
}

static void report_bench(const char *address, const struct iommulab_bench *arg,
			 const struct iommulab_bench_thread *threads)
{
	char path[PATH_MAX], domain[32], *line;
	size_t size;
	FILE *f;

	snprintf(path, sizeof(path), PCI_DEVICES "/%s/iommu_group/type",
		 address);
	if (!read_line(path, domain, sizeof(domain)))
		strcpy(domain, "none");

	f = open_memstream(&line, &size);
	if (!f)
		fail("out of memory");
	fprintf(f, "{\"iommulab\":\"bench\",\"device\":\"%s\",\"domain\":\"%s\","
		"\"size\":%u,\"depth\":%u,\"sg\":%u,\"dir\":\"%s\","
		"\"threads\":[", address, domain, arg->size, arg->depth,
		arg->sg, dirs[arg->dir]);
	for (unsigned int i = 0; i < arg->threads; i++)
		fprintf(f, "%s{\"cpu\":%u,\"ops\":%llu,\"ns\":%llu}",
			i ? "," : "", threads[i].cpu, threads[i].ops,
			threads[i].ns);
	fputs("]", f);
	put_hist(f, "map", &arg->map);
	put_hist(f, "unmap", &arg->unmap);
	fputs("}\n", f);
	if (fclose(f))
		fail("out of memory");

	put_line(line);
	free(line);
}

/* The mode of each knob. */
static void report_modes(const char *address)
{
	char path[PATH_MAX], knob[32], last[32] = "", mode[64], *line;
	const char *comma = "";
	size_t size;
	FILE *modes = fopen(LAB "/modes", "re"), *f;

	if (!modes)
		return;
	f = open_memstream(&line, &size);
	if (!f)
		fail("out of memory");

	fputs("{\"iommulab\":\"modes\",\"modes\":{", f);
	while (fscanf(modes, "%31s%*[^\n]", knob) == 1) {
		if (!strcmp(knob, last))
			continue;
		strcpy(last, knob);
		knob_path(path, address, knob);
		if (!read_line(path, mode, sizeof(mode)))
			continue;
		fprintf(f, "%s\"%s\":\"%s\"", comma, knob, mode);
		comma = ",";
	}
	fputs("}}\n", f);
	fclose(modes);
	if (fclose(f))
		fail("out of memory");

	put_line(line);
	free(line);
}

/* What the kernel has counted, if it does, as a line of this kind. */
static void report_counters(const char *kind, const char *path)
{
	char set[64], last[64] = "", name[64], *line;
	unsigned long long value;
	const char *comma = "";
	size_t size;
	FILE *counters = fopen(path, "re"), *f;

	if (!counters)
		return;
	f = open_memstream(&line, &size);
	if (!f)
		fail("out of memory");

	fprintf(f, "{\"iommulab\":\"%s\",\"sets\":{", kind);
	while (fscanf(counters, "%63s %63s %llu", set, name, &value) == 3) {
		if (strcmp(set, last)) {
			fprintf(f, "%s\"%s\":{", *last ? "}," : "", set);
			strcpy(last, set);
			comma = "";
		}
		fprintf(f, "%s\"%s\":%llu", comma, name, value);
		comma = ",";
	}
	fputs(*last ? "}}}\n" : "}}\n", f);
	fclose(counters);
	if (fclose(f))
		fail("out of memory");

	if (*last)
		put_line(line);
	free(line);
}

static void start_side(enum side side)
{
	const char *why = side_start(side, sysconf(_SC_NPROCESSORS_ONLN));

	if (why)
		fail("iommulab.side: %s", why);
}

static void stop_side(enum side side)
{
	char line[64];
	int error;
	long done = side_stop(&error);

	if (side == SIDE_NONE)
		return;
	if (done < 0)
		fail("iommulab.side: %s", strerror(error));
	snprintf(line, sizeof(line), "{\"iommulab\":\"side\",\"done\":%ld}\n",
		 done);
	put_line(line);
}

static void run_bench(struct job *job)
{
	struct iommulab_bench *arg = &job->arg;
	struct iommulab_bench_thread *threads;
	const char *address = find_dma_device(job);
	char path[PATH_MAX];
	int fd;

	bind_device(address, BENCH_DRIVER, job->domain);
	set_knobs(job, address);

	snprintf(path, sizeof(path), "/sys/kernel/debug/iommulab/%s", address);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		fail("cannot open %s: %s", path, strerror(errno));

	threads = calloc(arg->threads ?: 1, sizeof(*threads));
	if (!threads)
		fail("no memory for the results of %u threads", arg->threads);
	arg->results = (uintptr_t)threads;

	start_side(job->side);
	if (ioctl(fd, IOMMULAB_IOC_BENCH, arg)) {
		int error = errno;
		const char *message = kernel_message(BENCH_DRIVER " ");

		fail("benchmark failed: %s%s%s", strerror(error),
		     message ? ": " : "", message ?: "");
	}
	close(fd);
	stop_side(job->side);

	report_modes(address);
	report_counters("counters", LAB "/counters");
	report_counters("totals", LAB "/arm-smmu-v3/totals");
	report_bench(address, arg, threads);
	free(threads);
}

static void run_clocks(struct job *job)
{
	unsigned int cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct clocks c;
	char line[256];

	if (!clocks_run(cpus, &c))
		fail("cannot start a thread on each of %u CPUs", cpus);
	snprintf(line, sizeof(line),
		 "{\"iommulab\":\"clocks\",\"cpus\":%u,\"alone\":%" PRIu64
		 ",\"busy_min\":%" PRIu64 ",\"busy_max\":%" PRIu64
		 ",\"reads\":%" PRIu64 ",\"backwards\":%" PRIu64 "}\n",
		 cpus, c.alone, c.busy_min, c.busy_max, c.reads, c.backwards);
	put_line(line);
}

/* The lab port's register page, without the driver in between. */
static volatile uint32_t *map_port(void)
{
	const char *address = find_device(PORT_VENDOR, PORT_DEVICE);
	volatile uint32_t *port;
	char path[PATH_MAX];
	int fd;

	if (!address)
		fail("this job needs the lab port");
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/resource0", address);
	fd = open(path, O_RDWR | O_SYNC | O_CLOEXEC);
	if (fd < 0)
		fail("cannot open %s: %s", path, strerror(errno));
	port = mmap(NULL, PORT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    0);
	close(fd);
	if (port == MAP_FAILED)
		fail("cannot map %s: %s", path, strerror(errno));
	return port;
}

static void run_costs(struct job *job)
{
	char line[256];
	struct costs c;

	costs_run(map_port(), &c);
	snprintf(line, sizeof(line),
		 "{\"iommulab\":\"costs\",\"loop\":%" PRIu64
		 ",\"reads\":%" PRIu64 ",\"mmio\":%" PRIu64 "}\n",
		 c.loop, c.reads, c.mmio);
	put_line(line);
}

static void run_waiters(struct job *job)
{
	unsigned int cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t ticks;
	char line[256];

	if (!waiters_run(cpus, map_port(), &ticks))
		fail("cannot start a thread on each of %u CPUs", cpus);
	snprintf(line, sizeof(line),
		 "{\"iommulab\":\"waiters\",\"cpus\":%u,\"work\":%" PRIu64
		 "}\n", cpus, ticks);
	put_line(line);
}

static void run_locks(struct job *job)
{
	static const char path[] = "/sys/kernel/debug/iommulab/locks";
	char *list = job->locks, *item, *sep, line[16384];

	while ((item = strsep(&list, ","))) {
		size_t n = 0;
		ssize_t got;
		int fd;

		while ((sep = strchr(item, ':')))
			*sep = ' ';
		if (!write_file(path, item))
			fail("cannot run the lock kernel %s: %s", item,
			     strerror(errno));
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			fail("cannot open %s: %s", path, strerror(errno));
		while (n < sizeof(line) - 1 &&
		       (got = read(fd, line + n, sizeof(line) - 1 - n)) > 0)
			n += got;
		close(fd);
		line[n] = '\0';
		put_line(line);
	}
}

static void run_modes(struct job *job)
{
	algorithms_list();
}

static void run_iova(struct job *job)
{
	algorithms_iova(job->ops);
}

/* A run too short to measure anything. */
static void maps(const char *address)
{
	struct iommulab_bench_thread thread;
	struct iommulab_bench arg = {
		.threads = 1,
		.duration_ms = 1,
		.depth = 50,
		.size = 4096,
		.results = (uintptr_t)&thread,
	};
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), LAB "/%s", address);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, IOMMULAB_IOC_BENCH, &arg) || !thread.ops)
		fail("%s does not map any more", address);
	close(fd);
}

static void run_switch(struct job *job)
{
	const char *address = find_dma_device(job);

	bind_device(address, BENCH_DRIVER, job->domain);
	algorithms_switch(address, maps);
}

static void run_stale(struct job *job)
{
	const char *address = find_device(DMA_VENDOR, DMA_DEVICE);

	if (!address)
		fail("no PCI device %04x:%04x, the lab's DMA device",
		     DMA_VENDOR, DMA_DEVICE);
	bind_device(address, DMA_DRIVER, "DMA");
	algorithms_stale(address, job->ops);
}

/* report_ready() said it. */
static void run_ready(struct job *job)
{
}

int main(void)
{
	struct job job;

	set_up();
	report_ready();
	read_job(&job);
	job.run(&job);
	finish(0);
}
