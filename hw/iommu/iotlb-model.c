/*
 * IOTLB model: size, associativity and cost of an IOMMU's translation cache
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "hw/iommu/iotlb-model.h"

/* DMA translates in the thread that makes it, the vCPUs' or the main loop's */
static __thread uint64_t spent_ps;

uint64_t iotlb_model_take_ps(void)
{
    uint64_t ps = spent_ps;

    spent_ps = 0;
    return ps;
}

/* First slot of the set that @page belongs to */
static IOTLBSlot *set_of(IOTLBModel *m, uint64_t page)
{
    uint64_t sets = m->entries / m->ways;

    /* Low bits are all zero if pages are large: use those of each level */
    page ^= page >> 9 ^ page >> 18 ^ page >> 27;
    return &m->slots[page % sets * m->ways];
}

guint iotlb_model_limit(IOTLBModel *m, guint max)
{
    return m->entries ? UINT_MAX : max;
}

void iotlb_model_hit(IOTLBModel *m, const void *key, uint64_t page)
{
    m->hits++;
    spent_ps += m->lookup_ps;
    if (!m->entries) {
        return;
    }
    for (IOTLBSlot *slot = set_of(m, page), *end = slot + m->ways;
         slot < end; slot++) {
        if (slot->used && m->equal(slot->key, key)) {
            slot->used = ++m->tick;
            return;
        }
    }
}

void iotlb_model_miss(IOTLBModel *m)
{
    m->misses++;
    spent_ps += (uint64_t)m->lookup_ps + m->miss_ps;
}

void iotlb_model_walk(IOTLBModel *m)
{
    m->walk_reads++;
    spent_ps += m->walk_ps;
}

void iotlb_model_insert(IOTLBModel *m, const void *key, uint64_t page)
{
    IOTLBSlot *victim = NULL;

    m->inserted++;
    if (!m->entries) {
        return;
    }
    for (IOTLBSlot *slot = set_of(m, page), *end = slot + m->ways;
         slot < end; slot++) {
        if (slot->used && (m->equal(slot->key, key) ||
                           !g_hash_table_contains(m->table, slot->key))) {
            /* Invalidated meanwhile, or what this is to replace */
            slot->used = 0;
        }
        if (!victim || slot->used < victim->used) {
            victim = slot;
        }
    }
    if (victim->used) {
        g_hash_table_remove(m->table, victim->key);
        m->evicted++;
    }
    victim->used = ++m->tick;
    memcpy(victim->key, key, m->key_size);
}

/*
 * Entries leave the table when they are evicted or invalidated, also by a
 * reset of the table; the latter need not be counted where it is done.
 */
static void get_invalidated(Object *obj, Visitor *v, const char *name,
                            void *opaque, Error **errp)
{
    IOTLBModel *m = opaque;
    uint64_t value = m->inserted - m->evicted - g_hash_table_size(m->table);

    visit_type_uint64(v, name, &value, errp);
}

bool iotlb_model_init(IOTLBModel *m, Object *obj, GHashTable *table,
                      size_t key_size, GEqualFunc equal, Error **errp)
{
    assert(key_size <= IOTLB_MODEL_KEY_MAX);
    if (m->entries > IOTLB_MODEL_ENTRIES_MAX ||
        (m->entries && (!m->ways || m->entries % m->ways))) {
        error_setg(errp, "iotlb-entries has to be a multiple of iotlb-ways, "
                   "and at most %d", IOTLB_MODEL_ENTRIES_MAX);
        return false;
    }
    m->table = table;
    m->key_size = key_size;
    m->equal = equal;
    m->slots = g_new0(IOTLBSlot, m->entries);

    object_property_add_uint64_ptr(obj, "iotlb-hits", &m->hits,
                                   OBJ_PROP_FLAG_READ);
    object_property_add_uint64_ptr(obj, "iotlb-misses", &m->misses,
                                   OBJ_PROP_FLAG_READ);
    object_property_add_uint64_ptr(obj, "iotlb-walk-reads", &m->walk_reads,
                                   OBJ_PROP_FLAG_READ);
    object_property_add_uint64_ptr(obj, "iotlb-evicted", &m->evicted,
                                   OBJ_PROP_FLAG_READ);
    object_property_add(obj, "iotlb-invalidated", "uint64", get_invalidated,
                        NULL, NULL, m);
    return true;
}
