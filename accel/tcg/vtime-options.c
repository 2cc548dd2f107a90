/*
 * vtime: options of -accel tcg
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "system/cpu-timers.h"
#include "system/replay.h"
#include "coherence-internal.h"
#include "vtime-internal.h"

#define MAX_QUANTUM_NS (100 * 1000 * 1000)

/* Without a profile: one instruction a nanosecond, everything else free. */
static VTimeConfig cfg = {
    .quantum = 100 * 1000,              /* 100 ns */
    .boot_quantum = 20 * 1000 * 1000,   /* 20 us */
    .park_bound = 10000LL * 1000 * 1000, /* 10 ms */
    .profile.ps_per_insn = 1000,
};
static bool enabled;
static char *profile_path;
static CoherenceWatch watch;
/* The first option that needs vtime=on, to complain about. */
static const char *orphan;

static bool get_vtime(Object *obj, Error **errp)
{
    return enabled;
}

static void set_vtime(Object *obj, bool value, Error **errp)
{
    enabled = value;
}

/* @opaque is the field of cfg, in ps; the option is in ns. */
static void get_quantum(Object *obj, Visitor *v, const char *name,
                        void *opaque, Error **errp)
{
    uint64_t ns = *(int64_t *)opaque / 1000;

    visit_type_uint64(v, name, &ns, errp);
}

static void set_quantum(Object *obj, Visitor *v, const char *name,
                        void *opaque, Error **errp)
{
    uint64_t ns;

    if (!visit_type_uint64(v, name, &ns, errp)) {
        return;
    }
    if (ns < 1 || ns > MAX_QUANTUM_NS) {
        error_setg(errp, "%s must be within 1..%d ns", name, MAX_QUANTUM_NS);
        return;
    }
    *(int64_t *)opaque = ns * 1000;
    orphan = orphan ?: name;
}

static void get_jitter(Object *obj, Visitor *v, const char *name,
                       void *opaque, Error **errp)
{
    visit_type_uint64(v, name, &cfg.jitter, errp);
}

static void set_jitter(Object *obj, Visitor *v, const char *name,
                       void *opaque, Error **errp)
{
    visit_type_uint64(v, name, &cfg.jitter, errp);
    orphan = orphan ?: "vtime-jitter";
}

static char *get_profile(Object *obj, Error **errp)
{
    return g_strdup(profile_path);
}

static void set_profile(Object *obj, const char *value, Error **errp)
{
    g_free(profile_path);
    profile_path = g_strdup(value);
    orphan = orphan ?: "vtime-profile";
}

static const char *const watch_names[] = {
    [COHERENCE_OFF] = "off",
    [COHERENCE_AUTO] = "auto",
    [COHERENCE_ALL] = "all",
};

static char *get_watch(Object *obj, Error **errp)
{
    return g_strdup(watch_names[watch]);
}

static void set_watch(Object *obj, const char *value, Error **errp)
{
    for (size_t i = 0; i < ARRAY_SIZE(watch_names); i++) {
        if (!strcmp(value, watch_names[i])) {
            watch = i;
            orphan = orphan ?: "vtime-watch";
            return;
        }
    }
    error_setg(errp, "vtime-watch must be off, auto or all, not '%s'", value);
}

void vtime_add_options(ObjectClass *oc)
{
    object_class_property_add_bool(oc, "vtime", get_vtime, set_vtime);
    object_class_property_set_description(oc, "vtime",
        "Give each vCPU its own virtual clock (needs thread=single)");

    object_class_property_add(oc, "vtime-quantum", "int", get_quantum,
                              set_quantum, NULL, &cfg.quantum);
    object_class_property_set_description(oc, "vtime-quantum",
        "How far a vCPU's clock may run ahead inside a region, in ns");

    object_class_property_add(oc, "vtime-boot-quantum", "int", get_quantum,
                              set_quantum, NULL, &cfg.boot_quantum);
    object_class_property_set_description(oc, "vtime-boot-quantum",
        "The same outside of regions, in ns");

    object_class_property_add(oc, "vtime-jitter", "int", get_jitter,
                              set_jitter, NULL, NULL);
    object_class_property_set_description(oc, "vtime-jitter",
        "Seed of vCPU start offsets at a region's begin; 0: none");

    object_class_property_add_str(oc, "vtime-profile", get_profile,
                                  set_profile);
    object_class_property_set_description(oc, "vtime-profile",
        "File with the machine's costs");

    object_class_property_add_str(oc, "vtime-watch", get_watch, set_watch);
    object_class_property_set_description(oc, "vtime-watch",
        "Cache lines that cost time inside a region: off, auto, all");
}

bool vtime_init(bool mttcg, unsigned max_cpus, Error **errp)
{
    if (!enabled) {
        if (orphan) {
            error_setg(errp, "%s needs vtime=on", orphan);
            return false;
        }
        return true;
    }
    if (icount_enabled()) {
        error_setg(errp, "vtime=on and -icount exclude each other");
        return false;
    }
    if (mttcg) {
        error_setg(errp, "vtime=on needs thread=single");
        return false;
    }
    if (replay_mode != REPLAY_MODE_NONE) {
        error_setg(errp, "vtime=on and record/replay exclude each other");
        return false;
    }
    if (profile_path &&
        !vtime_profile_load(&cfg.profile, profile_path, errp)) {
        return false;
    }
    if (watch != COHERENCE_OFF) {
        CoherenceProfile lines;

        if (!profile_path) {
            error_setg(errp, "vtime-watch needs vtime-profile");
            return false;
        }
        if (max_cpus > COHERENCE_MAX_CPUS) {
            error_setg(errp, "vtime-watch: at most %d vCPUs",
                       COHERENCE_MAX_CPUS);
            return false;
        }
        if (!coherence_profile_load(&lines, profile_path, errp)) {
            return false;
        }
        coherence_init(watch, &lines, max_cpus);
    }
    vtime_start(&cfg, max_cpus);
    return true;
}
