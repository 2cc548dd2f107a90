/*
 * iommulab port: markers, names and output of a measured guest
 *
 * A guest that measures something tells the host through this device where
 * a region of interest begins and ends, what the addresses it uses are
 * called, what came out, and with which status it ends.  The device works
 * without interrupts and DMA, so that using it disturbs a measurement as
 * little as possible.  See docs/specs/iommulab-port.rst.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/log.h"
#include "qemu/module.h"
#include "qemu/timer.h"
#include "qemu/units.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "chardev/char-fe.h"
#include "hw/iommu/queue.h"
#include "hw/misc/iommulab-port.h"
#include "hw/pci/pci_device.h"
#include "hw/qdev-properties.h"
#include "hw/qdev-properties-system.h"
#include "hw/resettable.h"
#include "migration/vmstate.h"
#include "qom/object.h"
#include "system/cpus.h"
#include "system/runstate.h"
#include "system/coherence.h"
#include "system/vtime.h"
#include "trace.h"

#define REGION_NONE (-1)

OBJECT_DECLARE_SIMPLE_TYPE(IOMMULabPortState, IOMMULAB_PORT)

typedef struct IOMMULabName {
    uint64_t addr;
    uint32_t len;
    uint32_t flags;
    uint8_t name[IOMMULAB_PORT_NAME_SIZE];
} IOMMULabName;

typedef struct IOMMULabChannel {
    CharBackend chr;
    uint64_t written;
} IOMMULabChannel;

struct IOMMULabPortState {
    PCIDevice parent_obj;

    MemoryRegion mmio;

    IOMMULabChannel console;
    IOMMULabChannel result;
    uint64_t max_output;
    char *job;
    bool stop_when_ready;

    uint32_t status;
    int32_t region;

    /* Registers NAME_ADDR to NAME */
    IOMMULabName name_regs;

    /* In the order they were added; no two with the same address */
    IOMMULabName names[IOMMULAB_PORT_NAMES_MAX];
    uint32_t n_names;
};

typedef enum IOMMULabAccess {
    REG_RO = 1,
    REG_WO = 2,
    REG_RW = REG_RO | REG_WO,
} IOMMULabAccess;

typedef struct IOMMULabReg {
    uint16_t addr;
    uint16_t len;
    /* The access sizes, all powers of two, or'ed together */
    uint8_t sizes;
    IOMMULabAccess access;
} IOMMULabReg;

static const IOMMULabReg iommulab_regs[] = {
    { IOMMULAB_PORT_ID,           4, 4,             REG_RO },
    { IOMMULAB_PORT_VERSION,      4, 4,             REG_RO },
    { IOMMULAB_PORT_FEATURES,     4, 4,             REG_RO },
    { IOMMULAB_PORT_STATUS,       4, 4,             REG_RO },
    { IOMMULAB_PORT_CONSOLE,      8, 1 | 2 | 4 | 8, REG_WO },
    { IOMMULAB_PORT_RESULT,       8, 1 | 2 | 4 | 8, REG_WO },
    { IOMMULAB_PORT_REGION_BEGIN, 4, 4,             REG_WO },
    { IOMMULAB_PORT_REGION_END,   4, 4,             REG_WO },
    { IOMMULAB_PORT_TIME,         8, 4 | 8,         REG_RO },
    { IOMMULAB_PORT_NAME_ADDR,    8, 4 | 8,         REG_RW },
    { IOMMULAB_PORT_NAME_LEN,     4, 4,             REG_RW },
    { IOMMULAB_PORT_NAME_FLAGS,   4, 4,             REG_RW },
    { IOMMULAB_PORT_NAME, IOMMULAB_PORT_NAME_SIZE, 1 | 2 | 4 | 8, REG_RW },
    { IOMMULAB_PORT_NAME_CMD,     4, 4,             REG_WO },
    { IOMMULAB_PORT_EXIT,         4, 4,             REG_WO },
    { IOMMULAB_PORT_READY,        4, 4,             REG_WO },
    { IOMMULAB_PORT_JOB, IOMMULAB_PORT_JOB_SIZE, 1 | 2 | 4 | 8, REG_RO },
};

static const IOMMULabReg *iommulab_port_find_reg(hwaddr addr, unsigned size,
                                                 IOMMULabAccess access)
{
    for (int i = 0; i < ARRAY_SIZE(iommulab_regs); i++) {
        const IOMMULabReg *reg = &iommulab_regs[i];

        if (addr >= reg->addr && addr + size <= reg->addr + reg->len) {
            if ((reg->sizes & size) && (reg->access & access)) {
                return reg;
            }
            break;
        }
    }

    qemu_log_mask(LOG_GUEST_ERROR,
                  "iommulab-port: bad %u-byte %s at 0x%" HWADDR_PRIx "\n",
                  size, access == REG_RO ? "read" : "write", addr);
    return NULL;
}

static uint32_t iommulab_port_features(IOMMULabPortState *s)
{
    uint32_t features = 0;

    if (qemu_chr_fe_backend_connected(&s->console.chr)) {
        features |= IOMMULAB_PORT_FEATURE_CONSOLE;
    }
    if (qemu_chr_fe_backend_connected(&s->result.chr)) {
        features |= IOMMULAB_PORT_FEATURE_RESULT;
    }
    if (vtime_enabled()) {
        features |= IOMMULAB_PORT_FEATURE_VTIME;
    }
    return features;
}

/*
 * The budget of a channel is for the whole life of the device, so that a
 * guest that reboots in a loop cannot fill the host's disk either.
 */
static uint32_t iommulab_port_output(IOMMULabPortState *s,
                                     IOMMULabChannel *channel,
                                     const void *buf, unsigned size)
{
    uint64_t room = s->max_output - MIN(channel->written, s->max_output);
    unsigned len = MIN(size, room);

    if (!qemu_chr_fe_backend_connected(&channel->chr)) {
        return IOMMULAB_PORT_BAD_STATE;
    }

    channel->written += len;
    if (len && qemu_chr_fe_write_all(&channel->chr, buf, len) != len) {
        return IOMMULAB_PORT_OUTPUT_FULL;
    }
    return len == size ? IOMMULAB_PORT_OK : IOMMULAB_PORT_OUTPUT_FULL;
}

/* Where each vCPU's time went: docs/specs/vtime.rst, "Report" */
static void iommulab_port_report(IOMMULabPortState *s, uint32_t id)
{
    VTimeStats st;

    for (int cpu = 0; vtime_region_stats(cpu, &st); cpu++) {
        g_autofree char *line = g_strdup_printf(
            "{\"iommulab\":\"vtime\",\"region\":%" PRIu32 ",\"cpu\":%d,"
            "\"insns\":%" PRIu64 ",\"total_ps\":%" PRIi64 ","
            "\"exec_ps\":%" PRIi64 ",\"pause_ps\":%" PRIi64 ","
            "\"mmio_ps\":%" PRIi64 ",\"line_wait_ps\":%" PRIi64 ","
            "\"line_transfer_ps\":%" PRIi64 ",\"atomic_ps\":%" PRIi64 ","
            "\"wfe_ps\":%" PRIi64 ","
            "\"poll_ps\":%" PRIi64 ",\"idle_ps\":%" PRIi64 ","
            "\"jitter_ps\":%" PRIi64 ",\"slices\":%" PRIu64 ","
            "\"parks\":%" PRIu64 "}\n",
            id, cpu, st.insns, st.total, st.exec, st.pause, st.mmio,
            st.line_wait, st.line_transfer, st.atomic,
            st.parked[VTIME_PARK_WFE], st.parked[VTIME_PARK_POLL], st.idle,
            st.jitter, st.slices, st.parks);

        iommulab_port_output(s, &s->result, line, strlen(line));
    }
}

/* What happened to cache lines: docs/specs/coherence.rst, "Report" */
static void iommulab_port_report_lines(IOMMULabPortState *s, uint32_t id)
{
    g_autofree char *text = coherence_report(id);

    if (!text) {
        return;
    }
    iommulab_port_output(s, &s->result, text, strlen(text));
    for (uint32_t i = 0; i < s->n_names; i++) {
        const IOMMULabName *n = &s->names[i];
        g_autofree char *line = g_strdup_printf(
            "{\"iommulab\":\"name\",\"region\":%" PRIu32 ",\"addr\":\"0x%"
            PRIx64 "\",\"len\":%" PRIu32 ",\"virtual\":%s,\"name\":\"%s\"}\n",
            id, n->addr, n->len,
            n->flags & IOMMULAB_PORT_NAME_VIRTUAL ? "true" : "false",
            (const char *)n->name);

        iommulab_port_output(s, &s->result, line, strlen(line));
    }
}

static void iommulab_port_emit(void *opaque, const char *line)
{
    IOMMULabPortState *s = opaque;

    iommulab_port_output(s, &s->result, line, strlen(line));
}

static uint32_t iommulab_port_region_begin(IOMMULabPortState *s, uint32_t id)
{
    if (id > IOMMULAB_PORT_REGION_MAX) {
        return IOMMULAB_PORT_BAD_COMMAND;
    }
    if (s->region != REGION_NONE) {
        return IOMMULAB_PORT_BAD_STATE;
    }

    s->region = id;
    if (vtime_enabled()) {
        vtime_region_begin();
    }
    iommu_queues_region_begin();
    trace_iommulab_port_region_begin(id,
                                     qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL));
    return IOMMULAB_PORT_OK;
}

static uint32_t iommulab_port_region_end(IOMMULabPortState *s, uint32_t id)
{
    if (id > IOMMULAB_PORT_REGION_MAX) {
        return IOMMULAB_PORT_BAD_COMMAND;
    }
    if (s->region != id) {
        return IOMMULAB_PORT_BAD_STATE;
    }

    s->region = REGION_NONE;
    if (vtime_enabled()) {
        vtime_region_end();
        iommulab_port_report(s, id);
        iommulab_port_report_lines(s, id);
    }
    /* What the IOMMUs' queues did: docs/specs/iommu-queue.rst */
    iommu_queues_region_report(id, iommulab_port_emit, s);
    trace_iommulab_port_region_end(id, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL));
    return IOMMULAB_PORT_OK;
}

static bool iommulab_port_name_valid(const IOMMULabName *n)
{
    size_t len = strnlen((const char *)n->name, sizeof(n->name));

    if (len == 0 || len == sizeof(n->name)) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (!g_ascii_isalnum(n->name[i]) && !strchr("_.:-", n->name[i])) {
            return false;
        }
    }

    /* The last byte that is named must not lie beyond the address space */
    return n->len && n->addr + (n->len - 1) >= n->addr;
}

static IOMMULabName *iommulab_port_find_name(IOMMULabPortState *s,
                                             uint64_t addr)
{
    for (uint32_t i = 0; i < s->n_names; i++) {
        if (s->names[i].addr == addr) {
            return &s->names[i];
        }
    }
    return NULL;
}

static uint32_t iommulab_port_name_add(IOMMULabPortState *s)
{
    const IOMMULabName *regs = &s->name_regs;
    IOMMULabName *n;

    if (!iommulab_port_name_valid(regs)) {
        return IOMMULAB_PORT_BAD_NAME;
    }

    n = iommulab_port_find_name(s, regs->addr);
    if (!n) {
        if (s->n_names == IOMMULAB_PORT_NAMES_MAX) {
            return IOMMULAB_PORT_NO_SPACE;
        }
        n = &s->names[s->n_names++];
    }

    *n = *regs;
    trace_iommulab_port_name_add(n->addr, n->len, n->flags,
                                 (const char *)n->name);
    return IOMMULAB_PORT_OK;
}

static uint32_t iommulab_port_name_remove(IOMMULabPortState *s)
{
    IOMMULabName *n = iommulab_port_find_name(s, s->name_regs.addr);

    if (!n) {
        return IOMMULAB_PORT_BAD_NAME;
    }

    trace_iommulab_port_name_remove(n->addr, (const char *)n->name);
    s->n_names--;
    memmove(n, n + 1, (&s->names[s->n_names] - n) * sizeof(*n));
    return IOMMULAB_PORT_OK;
}

static uint32_t iommulab_port_name_cmd(IOMMULabPortState *s, uint32_t cmd)
{
    switch (cmd) {
    case IOMMULAB_PORT_NAME_ADD:
        return iommulab_port_name_add(s);
    case IOMMULAB_PORT_NAME_REMOVE:
        return iommulab_port_name_remove(s);
    case IOMMULAB_PORT_NAME_CLEAR:
        trace_iommulab_port_name_clear(s->n_names);
        s->n_names = 0;
        return IOMMULAB_PORT_OK;
    default:
        return IOMMULAB_PORT_BAD_COMMAND;
    }
}

static uint32_t iommulab_port_exit(uint32_t code)
{
    if (code > IOMMULAB_PORT_EXIT_MAX) {
        return IOMMULAB_PORT_BAD_COMMAND;
    }

    trace_iommulab_port_exit(code, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL));
    qemu_system_shutdown_request_with_code(SHUTDOWN_CAUSE_GUEST_SHUTDOWN,
                                           code);
    /* How far this vCPU gets must not depend on when the request is seen */
    cpu_stop_current();
    return IOMMULAB_PORT_OK;
}

/*
 * All before this is the same for every job, so it is where a machine is
 * saved that is to do several.
 */
static uint32_t iommulab_port_ready(IOMMULabPortState *s, uint32_t val)
{
    if (val) {
        return IOMMULAB_PORT_BAD_COMMAND;
    }

    trace_iommulab_port_ready(qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL));
    if (vtime_enabled()) {
        vtime_checkpoint();
    }
    if (s->stop_when_ready) {
        qemu_system_vmstop_request_prepare();
        qemu_system_vmstop_request(RUN_STATE_PAUSED);
        cpu_stop_current();
    }
    return IOMMULAB_PORT_OK;
}

static uint64_t iommulab_port_read(void *opaque, hwaddr addr, unsigned size)
{
    IOMMULabPortState *s = opaque;
    const IOMMULabReg *reg = iommulab_port_find_reg(addr, size, REG_RO);
    uint64_t val = 0;
    unsigned offset;

    if (!reg) {
        return 0;
    }
    offset = addr - reg->addr;

    switch (reg->addr) {
    case IOMMULAB_PORT_ID:
        val = IOMMULAB_PORT_ID_VALUE;
        break;
    case IOMMULAB_PORT_VERSION:
        val = IOMMULAB_PORT_VERSION_VALUE;
        break;
    case IOMMULAB_PORT_FEATURES:
        val = iommulab_port_features(s);
        break;
    case IOMMULAB_PORT_STATUS:
        val = s->status;
        break;
    case IOMMULAB_PORT_TIME:
        val = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
        break;
    case IOMMULAB_PORT_NAME_ADDR:
        val = s->name_regs.addr;
        break;
    case IOMMULAB_PORT_NAME_LEN:
        val = s->name_regs.len;
        break;
    case IOMMULAB_PORT_NAME_FLAGS:
        val = s->name_regs.flags;
        break;
    case IOMMULAB_PORT_NAME:
        return ldn_le_p(&s->name_regs.name[offset], size);
    case IOMMULAB_PORT_JOB:
        for (size_t len = strlen(s->job ?: ""), i = size; i-- > 0;) {
            val = val << 8 | (offset + i < len ? (uint8_t)s->job[offset + i]
                                               : 0);
        }
        return val;
    default:
        g_assert_not_reached();
    }
    return extract64(val, offset * 8, size * 8);
}

static void iommulab_port_write(void *opaque, hwaddr addr, uint64_t val,
                                unsigned size)
{
    IOMMULabPortState *s = opaque;
    const IOMMULabReg *reg = iommulab_port_find_reg(addr, size, REG_WO);
    uint8_t buf[8];
    uint32_t status;
    unsigned offset;

    if (!reg) {
        return;
    }
    offset = addr - reg->addr;

    switch (reg->addr) {
    case IOMMULAB_PORT_CONSOLE:
        stn_le_p(buf, size, val);
        status = iommulab_port_output(s, &s->console, buf, size);
        if (status == IOMMULAB_PORT_OK) {
            /* Leave what another vCPU may be about to read */
            return;
        }
        break;
    case IOMMULAB_PORT_RESULT:
        stn_le_p(buf, size, val);
        status = iommulab_port_output(s, &s->result, buf, size);
        break;
    case IOMMULAB_PORT_REGION_BEGIN:
        status = iommulab_port_region_begin(s, val);
        break;
    case IOMMULAB_PORT_REGION_END:
        status = iommulab_port_region_end(s, val);
        break;
    case IOMMULAB_PORT_NAME_ADDR:
        s->name_regs.addr = deposit64(s->name_regs.addr,
                                      offset * 8, size * 8, val);
        return;
    case IOMMULAB_PORT_NAME_LEN:
        s->name_regs.len = val;
        return;
    case IOMMULAB_PORT_NAME_FLAGS:
        s->name_regs.flags = val & IOMMULAB_PORT_NAME_VIRTUAL;
        return;
    case IOMMULAB_PORT_NAME:
        stn_le_p(&s->name_regs.name[offset], size, val);
        return;
    case IOMMULAB_PORT_NAME_CMD:
        status = iommulab_port_name_cmd(s, val);
        break;
    case IOMMULAB_PORT_EXIT:
        status = iommulab_port_exit(val);
        break;
    case IOMMULAB_PORT_READY:
        status = iommulab_port_ready(s, val);
        break;
    default:
        g_assert_not_reached();
    }

    if (status != IOMMULAB_PORT_OK) {
        trace_iommulab_port_refused(reg->addr, val, status);
    }
    s->status = status;
}

static const MemoryRegionOps iommulab_port_ops = {
    .read = iommulab_port_read,
    .write = iommulab_port_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = {
        .min_access_size = 1,
        .max_access_size = 8,
    },
    .impl = {
        .min_access_size = 1,
        .max_access_size = 8,
    },
};

static bool iommulab_port_n_names_valid(void *opaque, int version_id)
{
    IOMMULabPortState *s = opaque;

    return s->n_names <= IOMMULAB_PORT_NAMES_MAX;
}

static int iommulab_port_post_load(void *opaque, int version_id)
{
    IOMMULabPortState *s = opaque;

    if (s->region < REGION_NONE || s->region > IOMMULAB_PORT_REGION_MAX) {
        return -EINVAL;
    }
    for (uint32_t i = 0; i < s->n_names; i++) {
        if (!iommulab_port_name_valid(&s->names[i])) {
            return -EINVAL;
        }
    }
    return 0;
}

static const VMStateDescription vmstate_iommulab_name = {
    .name = "iommulab-port/name",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64(addr, IOMMULabName),
        VMSTATE_UINT32(len, IOMMULabName),
        VMSTATE_UINT32(flags, IOMMULabName),
        VMSTATE_UINT8_ARRAY(name, IOMMULabName, IOMMULAB_PORT_NAME_SIZE),
        VMSTATE_END_OF_LIST()
    },
};

static const VMStateDescription vmstate_iommulab_port = {
    .name = TYPE_IOMMULAB_PORT,
    .version_id = 1,
    .minimum_version_id = 1,
    .post_load = iommulab_port_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_PCI_DEVICE(parent_obj, IOMMULabPortState),
        VMSTATE_UINT64(console.written, IOMMULabPortState),
        VMSTATE_UINT64(result.written, IOMMULabPortState),
        VMSTATE_UINT32(status, IOMMULabPortState),
        VMSTATE_INT32(region, IOMMULabPortState),
        VMSTATE_STRUCT(name_regs, IOMMULabPortState, 1,
                       vmstate_iommulab_name, IOMMULabName),
        VMSTATE_UINT32(n_names, IOMMULabPortState),
        VMSTATE_VALIDATE("n_names in range", iommulab_port_n_names_valid),
        VMSTATE_STRUCT_VARRAY_UINT32(names, IOMMULabPortState, n_names, 1,
                                     vmstate_iommulab_name, IOMMULabName),
        VMSTATE_END_OF_LIST()
    },
};

static void iommulab_port_get_region(Object *obj, Visitor *v,
                                     const char *name, void *opaque,
                                     Error **errp)
{
    visit_type_int32(v, name, &IOMMULAB_PORT(obj)->region, errp);
}

static bool iommulab_port_visit_name(Visitor *v, IOMMULabName *n, Error **errp)
{
    bool is_virtual = n->flags & IOMMULAB_PORT_NAME_VIRTUAL;
    char *str = (char *)n->name;
    bool ok;

    if (!visit_start_struct(v, NULL, NULL, 0, errp)) {
        return false;
    }
    ok = visit_type_str(v, "name", &str, errp) &&
         visit_type_uint64(v, "addr", &n->addr, errp) &&
         visit_type_uint32(v, "len", &n->len, errp) &&
         visit_type_bool(v, "virtual", &is_virtual, errp) &&
         visit_check_struct(v, errp);
    visit_end_struct(v, NULL);
    return ok;
}

static void iommulab_port_get_names(Object *obj, Visitor *v,
                                    const char *name, void *opaque,
                                    Error **errp)
{
    IOMMULabPortState *s = IOMMULAB_PORT(obj);

    if (!visit_start_list(v, name, NULL, 0, errp)) {
        return;
    }
    for (uint32_t i = 0; i < s->n_names; i++) {
        if (!iommulab_port_visit_name(v, &s->names[i], errp)) {
            goto out;
        }
    }
    visit_check_list(v, errp);
out:
    visit_end_list(v, NULL);
}

static void iommulab_port_reset_hold(Object *obj, ResetType type)
{
    IOMMULabPortState *s = IOMMULAB_PORT(obj);

    trace_iommulab_port_reset(s->region, s->n_names);
    if (vtime_enabled() && s->region != REGION_NONE) {
        vtime_region_end();
    }
    s->status = IOMMULAB_PORT_OK;
    s->region = REGION_NONE;
    s->name_regs = (IOMMULabName) { };
    s->n_names = 0;
}

static void iommulab_port_realize(PCIDevice *pdev, Error **errp)
{
    IOMMULabPortState *s = IOMMULAB_PORT(pdev);

    if (s->job && strlen(s->job) >= IOMMULAB_PORT_JOB_SIZE) {
        error_setg(errp, "job is longer than %d characters",
                   IOMMULAB_PORT_JOB_SIZE - 1);
        return;
    }
    memory_region_init_io(&s->mmio, OBJECT(s), &iommulab_port_ops, s,
                          TYPE_IOMMULAB_PORT, IOMMULAB_PORT_BAR_SIZE);
    pci_register_bar(pdev, 0, PCI_BASE_ADDRESS_SPACE_MEMORY, &s->mmio);
}

static void iommulab_port_instance_init(Object *obj)
{
    IOMMULAB_PORT(obj)->region = REGION_NONE;
}

static const Property iommulab_port_properties[] = {
    DEFINE_PROP_CHR("console", IOMMULabPortState, console.chr),
    DEFINE_PROP_CHR("result", IOMMULabPortState, result.chr),
    DEFINE_PROP_SIZE("max-output", IOMMULabPortState, max_output, 64 * MiB),
    DEFINE_PROP_STRING("job", IOMMULabPortState, job),
    DEFINE_PROP_BOOL("stop-when-ready", IOMMULabPortState, stop_when_ready,
                     false),
};

static void iommulab_port_class_init(ObjectClass *klass, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    PCIDeviceClass *k = PCI_DEVICE_CLASS(klass);
    ResettableClass *rc = RESETTABLE_CLASS(klass);

    k->realize = iommulab_port_realize;
    k->vendor_id = PCI_VENDOR_ID_QEMU;
    k->device_id = IOMMULAB_PORT_DEVICE_ID;
    k->revision = IOMMULAB_PORT_VERSION_VALUE;
    k->class_id = PCI_CLASS_OTHERS;

    rc->phases.hold = iommulab_port_reset_hold;

    dc->desc = "iommulab port (markers, names, output, exit status)";
    dc->vmsd = &vmstate_iommulab_port;
    device_class_set_props(dc, iommulab_port_properties);
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);

    object_class_property_add(klass, "region", "int32",
                              iommulab_port_get_region, NULL, NULL, NULL);
    object_class_property_set_description(klass, "region",
                                          "The open region; -1 if none");
    object_class_property_add(klass, "names", "list",
                              iommulab_port_get_names, NULL, NULL, NULL);
    object_class_property_set_description(klass, "names",
                                          "The names the guest registered");
}

static const TypeInfo iommulab_port_types[] = {
    {
        .name           = TYPE_IOMMULAB_PORT,
        .parent         = TYPE_PCI_DEVICE,
        .instance_size  = sizeof(IOMMULabPortState),
        .instance_init  = iommulab_port_instance_init,
        .class_init     = iommulab_port_class_init,
        .interfaces     = (InterfaceInfo[]) {
            { INTERFACE_CONVENTIONAL_PCI_DEVICE },
            { }
        },
    },
};

DEFINE_TYPES(iommulab_port_types)
