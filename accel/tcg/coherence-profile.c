/*
 * Cache lines that many vCPUs use: the costs, from a profile
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "system/vtime.h"
#include "coherence-line.h"

#define FIELD(name) offsetof(CoherenceProfile, name)

static const struct {
    const char *group, *key;
    size_t offset;
    int64_t min, max;
} keys[] = {
    { "topology", "cpus-per-core", FIELD(per_core), 1, 4096 },
    { "topology", "cpus-per-cluster", FIELD(per_cluster), 1, 4096 },
    { "topology", "cpus-per-die", FIELD(per_die), 1, 4096 },
    { "topology", "cpus-per-socket", FIELD(per_socket), 1, 4096 },
    { "lines", "same-core-ps", FIELD(transfer[COHERENCE_SAME_CORE]),
      0, VTIME_MAX_COST_PS },
    { "lines", "same-cluster-ps", FIELD(transfer[COHERENCE_SAME_CLUSTER]),
      0, VTIME_MAX_COST_PS },
    { "lines", "same-die-ps", FIELD(transfer[COHERENCE_SAME_DIE]),
      0, VTIME_MAX_COST_PS },
    { "lines", "same-socket-ps", FIELD(transfer[COHERENCE_SAME_SOCKET]),
      0, VTIME_MAX_COST_PS },
    { "lines", "cross-socket-ps", FIELD(transfer[COHERENCE_CROSS_SOCKET]),
      0, VTIME_MAX_COST_PS },
    { "lines", "home-ps", FIELD(home), 0, VTIME_MAX_COST_PS },
    { "lines", "read-occupancy-ps", FIELD(read_occupancy),
      0, VTIME_MAX_COST_PS },
    { "lines", "invalidate-ps", FIELD(invalidate), 0, VTIME_MAX_COST_PS },
    { "lines", "atomic-ps", FIELD(atomic), 0, VTIME_MAX_COST_PS },
    { "lines", "contended-atomic-ps", FIELD(contended_atomic),
      0, VTIME_MAX_COST_PS },
    { "lines", "far-atomics", FIELD(far_atomics), 0, 1 },
    { "lines", "far-occupancy-ps", FIELD(far_occupancy),
      0, VTIME_MAX_COST_PS },
    { "lines", "store-buffer", FIELD(store_buffer),
      0, COHERENCE_MAX_STORE_BUFFER },
    { "lines", "random-order", FIELD(random_order), 0, 1 },
    { "lines", "slack-ps", FIELD(slack), 0, VTIME_MAX_COST_PS },
};

bool coherence_profile_load(CoherenceProfile *p, const char *path,
                            Error **errp)
{
    g_autoptr(GKeyFile) kf = g_key_file_new();
    g_autoptr(GError) gerr = NULL;

    if (!g_key_file_load_from_file(kf, path, G_KEY_FILE_NONE, &gerr)) {
        error_setg(errp, "vtime-profile: cannot load '%s': %s", path,
                   gerr->message);
        return false;
    }
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        int64_t *field = (int64_t *)((char *)p + keys[i].offset);
        int64_t v = g_key_file_get_int64(kf, keys[i].group, keys[i].key,
                                         &gerr);

        if (gerr) {
            error_setg(errp, "vtime-profile: '%s': %s", path, gerr->message);
            return false;
        }
        if (v < keys[i].min || v > keys[i].max) {
            error_setg(errp, "vtime-profile: '%s': %s of [%s] must be within "
                       "%" PRId64 "..%" PRId64, path, keys[i].key,
                       keys[i].group, keys[i].min, keys[i].max);
            return false;
        }
        *field = v;
    }
    if (p->per_cluster % p->per_core || p->per_die % p->per_cluster ||
        p->per_socket % p->per_die) {
        error_setg(errp, "vtime-profile: '%s': cpus-per-core, -cluster, -die "
                   "and -socket must each divide the next", path);
        return false;
    }
    return true;
}
