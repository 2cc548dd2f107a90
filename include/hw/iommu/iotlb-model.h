/*
 * IOTLB model: size, associativity and cost of an IOMMU's translation cache
 *
 * QEMU's IOMMUs keep translations in a hash table that is emptied when it has
 * grown to a fixed size, and translating takes no time. This makes such a
 * table lose entries as a set-associative cache with least recently used
 * replacement does, and counts the time that lookups, misses and reads of
 * table entries take, for devices that want to know.
 *
 * Size and costs are properties of the IOMMU and zero by default: then the
 * table is used as it always was. See docs/specs/iotlb-model.rst.
 *
 * Each call is made with the lock that protects the table.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_IOMMU_IOTLB_MODEL_H
#define HW_IOMMU_IOTLB_MODEL_H

#include "hw/qdev-properties.h"

/* Bytes of a key of any table */
#define IOTLB_MODEL_KEY_MAX     32

#define IOTLB_MODEL_ENTRIES_MAX 65536

typedef struct IOTLBSlot {
    uint64_t used;              /* when last, by IOTLBModel.tick; 0: never */
    uint8_t key[IOTLB_MODEL_KEY_MAX];
} IOTLBSlot;

typedef struct IOTLBModel {
    /* Properties; costs in ps */
    uint32_t entries;           /* 0: no limit but the table's own */
    uint32_t ways;
    uint32_t lookup_ps;         /* each lookup */
    uint32_t miss_ps;           /* each miss, besides the walk */
    uint32_t walk_ps;           /* each read of a table entry */

    GHashTable *table;          /* not owned */
    GEqualFunc equal;
    size_t key_size;
    IOTLBSlot *slots;           /* entries of them, sets one after the other */
    uint64_t tick;

    /* Since the device was created */
    uint64_t hits;
    uint64_t misses;
    uint64_t walk_reads;
    uint64_t inserted;
    uint64_t evicted;
} IOTLBModel;

#define DEFINE_IOTLB_MODEL_PROPERTIES(_s, _f)                               \
    DEFINE_PROP_UINT32("iotlb-entries", _s, _f.entries, 0),                 \
    DEFINE_PROP_UINT32("iotlb-ways", _s, _f.ways, 4),                       \
    DEFINE_PROP_UINT32("iotlb-lookup-ps", _s, _f.lookup_ps, 0),             \
    DEFINE_PROP_UINT32("iotlb-miss-ps", _s, _f.miss_ps, 0),                 \
    DEFINE_PROP_UINT32("iotlb-walk-ps", _s, _f.walk_ps, 0)

/*
 * At realize, after @table exists. Adds the counters to @obj. False, and
 * @errp, if the properties do not fit together.
 */
bool iotlb_model_init(IOTLBModel *m, Object *obj, GHashTable *table,
                      size_t key_size, GEqualFunc equal, Error **errp);

/* How many entries @table may have: @max if the model does not limit it */
guint iotlb_model_limit(IOTLBModel *m, guint max);

/* A lookup found @key, whose page begins at @page (any unit) */
void iotlb_model_hit(IOTLBModel *m, const void *key, uint64_t page);

/* A lookup found nothing */
void iotlb_model_miss(IOTLBModel *m);

/* A table entry is read */
void iotlb_model_walk(IOTLBModel *m);

/* @key is about to be inserted; another entry is removed if need be */
void iotlb_model_insert(IOTLBModel *m, const void *key, uint64_t page);

/*
 * Time in ps that translations of the calling thread took since it last
 * called this: before and after a DMA it gives what that took.
 */
uint64_t iotlb_model_take_ps(void);

#endif
