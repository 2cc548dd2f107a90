/*
 * QTest testcase for the iommulab port
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "libqtest.h"
#include "libqos/generic-pcihost.h"
#include "libqos/pci-pc.h"
#include "hw/misc/iommulab-port.h"
#include "hw/pci/pci_ids.h"
#include "hw/pci/pci_regs.h"
#include "qobject/qdict.h"
#include "qobject/qlist.h"
#include "qobject/qnum.h"

#define PORT_DEVFN      QPCI_DEVFN(4, 0)

typedef struct Port {
    QTestState *qts;
    QPCIBus *bus;
    QGenericPCIBus generic;
    QPCIDevice *dev;
    QPCIBar bar;
    char *dir;
    char *console;
    char *result;
} Port;

/* The guest's side after reset: find the device, map its page */
static void port_map(Port *p)
{
    uint64_t size;

    p->dev = qpci_device_find(p->bus, PORT_DEVFN);
    g_assert_nonnull(p->dev);
    qpci_device_enable(p->dev);
    p->bar = qpci_iomap(p->dev, 0, &size);
    g_assert_cmphex(size, ==, IOMMULAB_PORT_BAR_SIZE);
}

static Port *port_start(const char *machine_args, const char *device_args)
{
    Port *p = g_new0(Port, 1);
    bool is_arm = g_str_equal(qtest_get_arch(), "aarch64");

    p->dir = g_dir_make_tmp("iommulab-port-test-XXXXXX", NULL);
    g_assert_nonnull(p->dir);
    p->console = g_build_filename(p->dir, "console", NULL);
    p->result = g_build_filename(p->dir, "result", NULL);

    p->qts = qtest_initf("-M %s -nodefaults %s "
                         "-chardev file,id=con,path=%s "
                         "-chardev file,id=res,path=%s "
                         "-device iommulab-port,id=port,addr=4.0%s",
                         is_arm ? "virt" : "q35", machine_args,
                         p->console, p->result, device_args);
    if (is_arm) {
        qpci_init_generic(&p->generic, p->qts, NULL, false);
        p->bus = &p->generic.bus;
    } else {
        p->bus = qpci_new_pc(p->qts, NULL);
    }
    return p;
}

static Port *port_new(const char *device_args)
{
    Port *p = port_start("", device_args);

    port_map(p);
    return p;
}

static Port *port_new_connected(void)
{
    return port_new(",console=con,result=res");
}

static void port_free(Port *p)
{
    qtest_quit(p->qts);
    g_free(p->dev);
    if (p->bus != &p->generic.bus) {
        qpci_free_pc(p->bus);
    }
    unlink(p->console);
    unlink(p->result);
    rmdir(p->dir);
    g_free(p->console);
    g_free(p->result);
    g_free(p->dir);
    g_free(p);
}

static uint32_t port_readl(Port *p, uint64_t reg)
{
    return qpci_io_readl(p->dev, p->bar, reg);
}

static void port_writel(Port *p, uint64_t reg, uint32_t val)
{
    qpci_io_writel(p->dev, p->bar, reg, val);
}

static uint64_t port_readq(Port *p, uint64_t reg)
{
    return qpci_io_readq(p->dev, p->bar, reg);
}

static void port_writeq(Port *p, uint64_t reg, uint64_t val)
{
    qpci_io_writeq(p->dev, p->bar, reg, val);
}

static uint32_t port_status(Port *p)
{
    return port_readl(p, IOMMULAB_PORT_STATUS);
}

static uint32_t port_command(Port *p, uint64_t reg, uint32_t val)
{
    port_writel(p, reg, val);
    return port_status(p);
}

static void port_set_name(Port *p, uint64_t addr, uint32_t len,
                          uint32_t flags, const char *name)
{
    char buf[IOMMULAB_PORT_NAME_SIZE] = { };

    g_assert_cmpuint(strlen(name), <=, sizeof(buf));
    memcpy(buf, name, strlen(name));
    port_writeq(p, IOMMULAB_PORT_NAME_ADDR, addr);
    port_writel(p, IOMMULAB_PORT_NAME_LEN, len);
    port_writel(p, IOMMULAB_PORT_NAME_FLAGS, flags);
    for (int i = 0; i < sizeof(buf); i += 8) {
        port_writeq(p, IOMMULAB_PORT_NAME + i, ldq_le_p(buf + i));
    }
}

static uint32_t port_add_name(Port *p, uint64_t addr, uint32_t len,
                              uint32_t flags, const char *name)
{
    port_set_name(p, addr, len, flags, name);
    return port_command(p, IOMMULAB_PORT_NAME_CMD, IOMMULAB_PORT_NAME_ADD);
}

static QDict *port_qom_get(Port *p, const char *property)
{
    QDict *rsp = qtest_qmp(p->qts, "{ 'execute': 'qom-get', 'arguments': {"
                           " 'path': '/machine/peripheral/port',"
                           " 'property': %s } }", property);

    g_assert(qdict_haskey(rsp, "return"));
    return rsp;
}

static int64_t port_open_region(Port *p)
{
    QDict *rsp = port_qom_get(p, "region");
    int64_t region = qdict_get_int(rsp, "return");

    qobject_unref(rsp);
    return region;
}

static size_t port_n_names(Port *p)
{
    QDict *rsp = port_qom_get(p, "names");
    size_t n = qlist_size(qdict_get_qlist(rsp, "return"));

    qobject_unref(rsp);
    return n;
}

static uint64_t get_uint(const QDict *d, const char *key)
{
    return qnum_get_uint(qobject_to(QNum, qdict_get(d, key)));
}

/* One name a line, in the order in which the device lists them */
static char *port_names(Port *p)
{
    QDict *rsp = port_qom_get(p, "names");
    GString *str = g_string_new(NULL);
    const QListEntry *entry;

    QLIST_FOREACH_ENTRY(qdict_get_qlist(rsp, "return"), entry) {
        const QDict *d = qobject_to(QDict, qlist_entry_obj(entry));

        g_string_append_printf(str, "%s@%" PRIx64 "+%" PRIx64 "%s\n",
                               qdict_get_str(d, "name"),
                               get_uint(d, "addr"),
                               get_uint(d, "len"),
                               qdict_get_bool(d, "virtual") ? "v" : "p");
    }
    qobject_unref(rsp);
    return g_string_free(str, false);
}

static void assert_names(Port *p, const char *expected)
{
    g_autofree char *names = port_names(p);

    g_assert_cmpstr(names, ==, expected);
}

static void assert_file(const char *path, const char *expected)
{
    g_autofree char *contents = NULL;
    g_autoptr(GError) err = NULL;

    g_file_get_contents(path, &contents, NULL, &err);
    g_assert_no_error(err);
    g_assert_cmpstr(contents, ==, expected);
}

static void test_identity(void)
{
    static const struct {
        const char *args;
        uint32_t features;
    } cases[] = {
        { "", 0 },
        { ",console=con", IOMMULAB_PORT_FEATURE_CONSOLE },
        { ",result=res", IOMMULAB_PORT_FEATURE_RESULT },
        { ",console=con,result=res",
          IOMMULAB_PORT_FEATURE_CONSOLE | IOMMULAB_PORT_FEATURE_RESULT },
    };

    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        Port *p = port_new(cases[i].args);

        g_assert_cmphex(qpci_config_readw(p->dev, PCI_VENDOR_ID), ==, 0x1234);
        g_assert_cmphex(qpci_config_readw(p->dev, PCI_DEVICE_ID), ==,
                        IOMMULAB_PORT_DEVICE_ID);
        g_assert_cmphex(qpci_config_readw(p->dev, PCI_CLASS_DEVICE), ==,
                        PCI_CLASS_OTHERS);
        g_assert_cmphex(port_readl(p, IOMMULAB_PORT_ID), ==,
                        IOMMULAB_PORT_ID_VALUE);
        g_assert_cmphex(port_readl(p, IOMMULAB_PORT_VERSION), ==,
                        IOMMULAB_PORT_VERSION_VALUE);
        g_assert_cmphex(port_readl(p, IOMMULAB_PORT_FEATURES), ==,
                        cases[i].features);
        g_assert_cmphex(port_status(p), ==, IOMMULAB_PORT_OK);
        port_free(p);
    }
}

/* Every access size at every offset, with and without a register there */
static void test_access(void)
{
    Port *p = port_new(",console=con,result=res,max-output=0");

    for (uint64_t reg = 0; reg < IOMMULAB_PORT_BAR_SIZE; reg++) {
        qpci_io_readb(p->dev, p->bar, reg);
        qpci_io_writeb(p->dev, p->bar, reg, 0xff);
        if (reg % 2 == 0) {
            qpci_io_readw(p->dev, p->bar, reg);
            qpci_io_writew(p->dev, p->bar, reg, 0xffff);
        }
        if (reg % 4 == 0) {
            qpci_io_readl(p->dev, p->bar, reg);
            qpci_io_writel(p->dev, p->bar, reg, 0xffffffff);
        }
        if (reg % 8 == 0) {
            qpci_io_readq(p->dev, p->bar, reg);
            qpci_io_writeq(p->dev, p->bar, reg, UINT64_MAX);
        }
    }

    /* Read-only registers kept their values, no command was taken */
    g_assert_cmphex(port_readl(p, IOMMULAB_PORT_ID), ==,
                    IOMMULAB_PORT_ID_VALUE);
    g_assert_cmphex(port_readl(p, IOMMULAB_PORT_VERSION), ==,
                    IOMMULAB_PORT_VERSION_VALUE);
    g_assert_cmphex(port_readl(p, IOMMULAB_PORT_FEATURES), ==,
                    IOMMULAB_PORT_FEATURE_CONSOLE |
                    IOMMULAB_PORT_FEATURE_RESULT);
    g_assert_cmpint(port_open_region(p), ==, -1);
    g_assert_cmpuint(port_n_names(p), ==, 0);

    /* Only bit 0 of NAME_FLAGS exists; the other name registers keep all */
    g_assert_cmphex(port_readl(p, IOMMULAB_PORT_NAME_FLAGS), ==,
                    IOMMULAB_PORT_NAME_VIRTUAL);
    g_assert_cmphex(port_readl(p, IOMMULAB_PORT_NAME_LEN), ==, 0xffffffff);
    g_assert_cmphex(port_readq(p, IOMMULAB_PORT_NAME_ADDR), ==, UINT64_MAX);

    /* A size that a register does not take changes nothing and reads as 0 */
    port_writel(p, IOMMULAB_PORT_NAME_LEN, 0x1234);
    qpci_io_writew(p->dev, p->bar, IOMMULAB_PORT_NAME_LEN, 0xffff);
    qpci_io_writeq(p->dev, p->bar, IOMMULAB_PORT_NAME_LEN, UINT64_MAX);
    g_assert_cmphex(port_readl(p, IOMMULAB_PORT_NAME_LEN), ==, 0x1234);
    g_assert_cmphex(qpci_io_readb(p->dev, p->bar, IOMMULAB_PORT_ID), ==, 0);
    g_assert_cmphex(qpci_io_readq(p->dev, p->bar, IOMMULAB_PORT_ID), ==, 0);

    /* 64-bit registers work by halves, the name by any size */
    port_writeq(p, IOMMULAB_PORT_NAME_ADDR, 0);
    port_writel(p, IOMMULAB_PORT_NAME_ADDR + 4, 0x01234567);
    port_writel(p, IOMMULAB_PORT_NAME_ADDR, 0x89abcdef);
    g_assert_cmphex(port_readq(p, IOMMULAB_PORT_NAME_ADDR), ==,
                    0x0123456789abcdef);
    g_assert_cmphex(port_readl(p, IOMMULAB_PORT_NAME_ADDR + 4), ==, 0x01234567);
    port_writeq(p, IOMMULAB_PORT_NAME, 0x8877665544332211);
    g_assert_cmphex(qpci_io_readb(p->dev, p->bar, IOMMULAB_PORT_NAME + 7),
                    ==, 0x88);
    g_assert_cmphex(qpci_io_readw(p->dev, p->bar, IOMMULAB_PORT_NAME + 2),
                    ==, 0x4433);

    port_free(p);
}

static void test_output(void)
{
    static const char line[] = "{\"a\":1}\n";
    Port *p = port_new_connected();

    qpci_io_writeq(p->dev, p->bar, IOMMULAB_PORT_CONSOLE, ldq_le_p("abcdefgh"));
    qpci_io_writel(p->dev, p->bar, IOMMULAB_PORT_CONSOLE, ldl_le_p("ijkl"));
    qpci_io_writew(p->dev, p->bar, IOMMULAB_PORT_CONSOLE, lduw_le_p("mn"));
    qpci_io_writeb(p->dev, p->bar, IOMMULAB_PORT_CONSOLE, 'o');
    /* As a bus that splits a 64-bit write would do it */
    qpci_io_writel(p->dev, p->bar, IOMMULAB_PORT_CONSOLE + 4, ldl_le_p("pqrs"));
    g_assert_cmphex(port_status(p), ==, IOMMULAB_PORT_OK);
    assert_file(p->console, "abcdefghijklmnopqrs");
    assert_file(p->result, "");

    qpci_io_writeq(p->dev, p->bar, IOMMULAB_PORT_RESULT, ldq_le_p(line));
    g_assert_cmphex(port_status(p), ==, IOMMULAB_PORT_OK);
    assert_file(p->result, line);
    assert_file(p->console, "abcdefghijklmnopqrs");

    /* The console does not hide the outcome of a command, RESULT is one */
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_NAME_CMD, 0), ==,
                    IOMMULAB_PORT_BAD_COMMAND);
    qpci_io_writeb(p->dev, p->bar, IOMMULAB_PORT_CONSOLE, '.');
    g_assert_cmphex(port_status(p), ==, IOMMULAB_PORT_BAD_COMMAND);
    qpci_io_writeb(p->dev, p->bar, IOMMULAB_PORT_RESULT, '.');
    g_assert_cmphex(port_status(p), ==, IOMMULAB_PORT_OK);

    port_free(p);
}

static void test_output_limit(void)
{
    Port *p = port_new(",console=con,result=res,max-output=10");

    qpci_io_writeq(p->dev, p->bar, IOMMULAB_PORT_RESULT, ldq_le_p("01234567"));
    g_assert_cmphex(port_status(p), ==, IOMMULAB_PORT_OK);
    /* What fits is written */
    qpci_io_writeq(p->dev, p->bar, IOMMULAB_PORT_RESULT, ldq_le_p("89abcdef"));
    g_assert_cmphex(port_status(p), ==, IOMMULAB_PORT_OUTPUT_FULL);
    qpci_io_writeb(p->dev, p->bar, IOMMULAB_PORT_RESULT, 'x');
    g_assert_cmphex(port_status(p), ==, IOMMULAB_PORT_OUTPUT_FULL);
    assert_file(p->result, "0123456789");

    /* Each channel has its own budget */
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_NAME_CMD,
                                 IOMMULAB_PORT_NAME_CLEAR), ==,
                    IOMMULAB_PORT_OK);
    qpci_io_writeq(p->dev, p->bar, IOMMULAB_PORT_CONSOLE, ldq_le_p("ABCDEFGH"));
    qpci_io_writew(p->dev, p->bar, IOMMULAB_PORT_CONSOLE, lduw_le_p("IJ"));
    g_assert_cmphex(port_status(p), ==, IOMMULAB_PORT_OK);
    qpci_io_writeb(p->dev, p->bar, IOMMULAB_PORT_CONSOLE, 'K');
    g_assert_cmphex(port_status(p), ==, IOMMULAB_PORT_OUTPUT_FULL);
    assert_file(p->console, "ABCDEFGHIJ");

    /* A guest does not get a new one by resetting the machine */
    qtest_system_reset(p->qts);
    g_free(p->dev);
    port_map(p);
    g_assert_cmphex(port_status(p), ==, IOMMULAB_PORT_OK);
    qpci_io_writeb(p->dev, p->bar, IOMMULAB_PORT_RESULT, 'x');
    g_assert_cmphex(port_status(p), ==, IOMMULAB_PORT_OUTPUT_FULL);
    assert_file(p->result, "0123456789");

    port_free(p);
}

static void test_output_unconnected(void)
{
    Port *p = port_new("");

    qpci_io_writeb(p->dev, p->bar, IOMMULAB_PORT_RESULT, 'x');
    g_assert_cmphex(port_status(p), ==, IOMMULAB_PORT_BAD_STATE);
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_NAME_CMD,
                                 IOMMULAB_PORT_NAME_CLEAR), ==,
                    IOMMULAB_PORT_OK);
    qpci_io_writeb(p->dev, p->bar, IOMMULAB_PORT_CONSOLE, 'x');
    g_assert_cmphex(port_status(p), ==, IOMMULAB_PORT_BAD_STATE);

    port_free(p);
}

static void test_region(void)
{
    Port *p = port_new_connected();
    uint32_t max = IOMMULAB_PORT_REGION_MAX;

    g_assert_cmpint(port_open_region(p), ==, -1);
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_REGION_END, 0), ==,
                    IOMMULAB_PORT_BAD_STATE);

    /* The lowest and the highest identifier */
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_REGION_BEGIN, 0), ==,
                    IOMMULAB_PORT_OK);
    g_assert_cmpint(port_open_region(p), ==, 0);
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_REGION_BEGIN, 1), ==,
                    IOMMULAB_PORT_BAD_STATE);
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_REGION_BEGIN, 0), ==,
                    IOMMULAB_PORT_BAD_STATE);
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_REGION_END, 1), ==,
                    IOMMULAB_PORT_BAD_STATE);
    g_assert_cmpint(port_open_region(p), ==, 0);
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_REGION_END, 0), ==,
                    IOMMULAB_PORT_OK);
    g_assert_cmpint(port_open_region(p), ==, -1);

    g_assert_cmphex(port_command(p, IOMMULAB_PORT_REGION_BEGIN, max), ==,
                    IOMMULAB_PORT_OK);
    g_assert_cmpint(port_open_region(p), ==, max);
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_REGION_END, max), ==,
                    IOMMULAB_PORT_OK);

    /* Out of range, the value of "no region" included */
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_REGION_BEGIN, max + 1), ==,
                    IOMMULAB_PORT_BAD_COMMAND);
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_REGION_END, max + 1), ==,
                    IOMMULAB_PORT_BAD_COMMAND);
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_REGION_END, UINT32_MAX), ==,
                    IOMMULAB_PORT_BAD_COMMAND);
    g_assert_cmpint(port_open_region(p), ==, -1);

    port_free(p);
}

static void test_time(void)
{
    Port *p = port_new_connected();
    uint64_t before = port_readq(p, IOMMULAB_PORT_TIME);
    uint64_t step = 5000000000;

    qtest_clock_step(p->qts, step);
    g_assert_cmpuint(port_readq(p, IOMMULAB_PORT_TIME), ==, before + step);
    g_assert_cmphex(port_readl(p, IOMMULAB_PORT_TIME), ==,
                    (uint32_t)(before + step));
    g_assert_cmphex(port_readl(p, IOMMULAB_PORT_TIME + 4), ==,
                    (before + step) >> 32);

    port_free(p);
}

static void test_names(void)
{
    Port *p = port_new_connected();
    const char *longest = "abcdefghijklmnopqrstuvwxyz"
                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456_.:-";

    g_assert_cmphex(port_add_name(p, 0xffff888012345678, 64,
                                  IOMMULAB_PORT_NAME_VIRTUAL, "cmdq.llq"),
                    ==, IOMMULAB_PORT_OK);
    g_assert_cmphex(port_add_name(p, 0xfed90000, 0x1000, 0, "vtd:0"), ==,
                    IOMMULAB_PORT_OK);
    g_assert_cmphex(port_add_name(p, UINT64_MAX, 1, 0, longest), ==,
                    IOMMULAB_PORT_OK);
    assert_names(p, "cmdq.llq@ffff888012345678+40v\n"
                 "vtd:0@fed90000+1000p\n"
                 "abcdefghijklmnopqrstuvwxyz"
                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456_.:-"
                 "@ffffffffffffffff+1p\n");

    /* A second name for an address replaces the first, in its place */
    g_assert_cmphex(port_add_name(p, 0xffff888012345678, 8, 0, "x"), ==,
                    IOMMULAB_PORT_OK);
    g_assert_cmpuint(port_n_names(p), ==, 3);

    /* Only the address decides what is removed */
    port_set_name(p, 0xfed90000, 0, 0, "");
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_NAME_CMD,
                                 IOMMULAB_PORT_NAME_REMOVE), ==,
                    IOMMULAB_PORT_OK);
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_NAME_CMD,
                                 IOMMULAB_PORT_NAME_REMOVE), ==,
                    IOMMULAB_PORT_BAD_NAME);
    port_writeq(p, IOMMULAB_PORT_NAME_ADDR, UINT64_MAX);
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_NAME_CMD,
                                 IOMMULAB_PORT_NAME_REMOVE), ==,
                    IOMMULAB_PORT_OK);
    assert_names(p, "x@ffff888012345678+8p\n");

    g_assert_cmphex(port_command(p, IOMMULAB_PORT_NAME_CMD,
                                 IOMMULAB_PORT_NAME_CLEAR), ==,
                    IOMMULAB_PORT_OK);
    assert_names(p, "");

    g_assert_cmphex(port_command(p, IOMMULAB_PORT_NAME_CMD, 0), ==,
                    IOMMULAB_PORT_BAD_COMMAND);
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_NAME_CMD, 4), ==,
                    IOMMULAB_PORT_BAD_COMMAND);

    port_free(p);
}

static void test_names_bad(void)
{
    static const struct {
        uint64_t addr;
        uint32_t len;
        const char *name;
    } bad[] = {
        { 0x1000, 8, "" },
        { 0x1000, 8, "with space" },
        { 0x1000, 8, "new\nline" },
        { 0x1000, 8, "quote\"" },
        { 0x1000, 8, "back\\slash" },
        { 0x1000, 8, "\xc3\xa9" },
        { 0x1000, 0, "nothing" },
        { UINT64_MAX, 2, "wraps" },
        { UINT64_MAX - 6, 8, "wraps" },
        /* Without a NUL */
        { 0x1000, 8, "0123456789012345678901234567890123456789"
                     "012345678901234567890123" },
    };
    Port *p = port_new_connected();

    for (int i = 0; i < ARRAY_SIZE(bad); i++) {
        g_assert_cmphex(port_add_name(p, bad[i].addr, bad[i].len, 0,
                                      bad[i].name), ==,
                        IOMMULAB_PORT_BAD_NAME);
    }
    g_assert_cmpuint(port_n_names(p), ==, 0);

    /* The last one that fits */
    g_assert_cmphex(port_add_name(p, UINT64_MAX - 7, 8, 0, "last"), ==,
                    IOMMULAB_PORT_OK);

    port_free(p);
}

static void test_names_limit(void)
{
    Port *p = port_new_connected();

    port_set_name(p, 0, 8, 0, "name");
    for (uint64_t i = 0; i < IOMMULAB_PORT_NAMES_MAX; i++) {
        port_writeq(p, IOMMULAB_PORT_NAME_ADDR, i * 8);
        port_writel(p, IOMMULAB_PORT_NAME_CMD, IOMMULAB_PORT_NAME_ADD);
    }
    g_assert_cmphex(port_status(p), ==, IOMMULAB_PORT_OK);
    g_assert_cmpuint(port_n_names(p), ==, IOMMULAB_PORT_NAMES_MAX);

    port_writeq(p, IOMMULAB_PORT_NAME_ADDR, 8 * IOMMULAB_PORT_NAMES_MAX);
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_NAME_CMD,
                                 IOMMULAB_PORT_NAME_ADD), ==,
                    IOMMULAB_PORT_NO_SPACE);
    g_assert_cmpuint(port_n_names(p), ==, IOMMULAB_PORT_NAMES_MAX);

    /* Replacing needs no room; removing makes some */
    g_assert_cmphex(port_add_name(p, 0, 8, 0, "other"), ==, IOMMULAB_PORT_OK);
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_NAME_CMD,
                                 IOMMULAB_PORT_NAME_REMOVE), ==,
                    IOMMULAB_PORT_OK);
    g_assert_cmphex(port_add_name(p, 8 * IOMMULAB_PORT_NAMES_MAX, 8, 0, "new"),
                    ==, IOMMULAB_PORT_OK);
    g_assert_cmpuint(port_n_names(p), ==, IOMMULAB_PORT_NAMES_MAX);

    port_free(p);
}

static void test_reset(void)
{
    Port *p = port_new_connected();

    g_assert_cmphex(port_add_name(p, 0x1000, 8, 1, "name"), ==,
                    IOMMULAB_PORT_OK);
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_REGION_BEGIN, 7), ==,
                    IOMMULAB_PORT_OK);
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_NAME_CMD, 0), ==,
                    IOMMULAB_PORT_BAD_COMMAND);

    qtest_system_reset(p->qts);
    g_free(p->dev);
    port_map(p);

    assert_names(p, "");
    g_assert_cmpint(port_open_region(p), ==, -1);
    g_assert_cmphex(port_status(p), ==, IOMMULAB_PORT_OK);
    g_assert_cmphex(port_readq(p, IOMMULAB_PORT_NAME_ADDR), ==, 0);
    g_assert_cmphex(port_readl(p, IOMMULAB_PORT_NAME_LEN), ==, 0);
    g_assert_cmphex(port_readl(p, IOMMULAB_PORT_NAME_FLAGS), ==, 0);
    g_assert_cmphex(port_readq(p, IOMMULAB_PORT_NAME), ==, 0);

    port_free(p);
}

static void wait_migrated(QTestState *qts)
{
    for (;;) {
        QDict *rsp = qtest_qmp(qts, "{ 'execute': 'query-migrate' }");
        QDict *ret = qdict_get_qdict(rsp, "return");
        const char *status = qdict_get_try_str(ret, "status");
        bool completed = g_strcmp0(status, "completed") == 0;

        g_assert_cmpstr(status, !=, "failed");
        qobject_unref(rsp);
        if (completed) {
            return;
        }
        g_usleep(1000);
    }
}

static void test_migrate(void)
{
    Port *from = port_new(",console=con,result=res,max-output=4");
    g_autofree char *state = g_build_filename(from->dir, "state", NULL);
    g_autofree char *uri = g_strdup_printf("file:%s", state);
    g_autofree char *incoming = g_strdup_printf("-incoming %s", uri);
    g_autofree char *names = NULL;
    QPCIBar bar = from->bar;
    Port *to;

    for (int i = 0; i < 100; i++) {
        g_autofree char *name = g_strdup_printf("line.%d", i);

        g_assert_cmphex(port_add_name(from, i * 64, i + 1, i & 1, name), ==,
                        IOMMULAB_PORT_OK);
    }
    names = port_names(from);
    port_set_name(from, 0x123456789a, 99, 1, "pending");
    qpci_io_writew(from->dev, from->bar, IOMMULAB_PORT_RESULT,
                   lduw_le_p("ab"));
    g_assert_cmphex(port_command(from, IOMMULAB_PORT_REGION_BEGIN, 7), ==,
                    IOMMULAB_PORT_OK);
    g_assert_cmphex(port_command(from, IOMMULAB_PORT_REGION_BEGIN, 8), ==,
                    IOMMULAB_PORT_BAD_STATE);

    qtest_qmp_assert_success(from->qts, "{ 'execute': 'migrate',"
                             " 'arguments': { 'uri': %s } }", uri);
    wait_migrated(from->qts);

    to = port_start(incoming, ",console=con,result=res,max-output=4");
    wait_migrated(to->qts);
    to->dev = qpci_device_find(to->bus, PORT_DEVFN);
    to->bar = bar;

    assert_names(to, names);
    g_assert_cmpint(port_open_region(to), ==, 7);
    g_assert_cmphex(port_status(to), ==, IOMMULAB_PORT_BAD_STATE);
    g_assert_cmphex(port_command(to, IOMMULAB_PORT_REGION_END, 7), ==,
                    IOMMULAB_PORT_OK);

    /* The half-written name goes on where it was */
    g_assert_cmphex(port_command(to, IOMMULAB_PORT_NAME_CMD,
                                 IOMMULAB_PORT_NAME_ADD), ==,
                    IOMMULAB_PORT_OK);
    g_assert_cmpuint(port_n_names(to), ==, 101);

    /* And so does the output budget: two bytes are left of four */
    qpci_io_writel(to->dev, to->bar, IOMMULAB_PORT_RESULT, ldl_le_p("cdef"));
    g_assert_cmphex(port_status(to), ==, IOMMULAB_PORT_OUTPUT_FULL);
    assert_file(to->result, "cd");

    port_free(to);
    unlink(state);
    port_free(from);
}

static void test_exit(const void *data)
{
    int status = GPOINTER_TO_INT(data);
    Port *p = port_new_connected();

    /* Out of range: QEMU goes on */
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_EXIT,
                                 IOMMULAB_PORT_EXIT_MAX + 1), ==,
                    IOMMULAB_PORT_BAD_COMMAND);

    qtest_set_expected_status(p->qts, status);
    port_writel(p, IOMMULAB_PORT_EXIT, status);
    qtest_wait_qemu(p->qts);
    port_free(p);
}

static void test_job(void)
{
    Port *p = port_new(",job=ab,,cdefg");

    g_assert_cmphex(port_readq(p, IOMMULAB_PORT_JOB), ==,
                    ldq_le_p("ab,cdefg"));
    g_assert_cmphex(port_readl(p, IOMMULAB_PORT_JOB + 4), ==,
                    ldl_le_p("defg"));
    g_assert_cmphex(qpci_io_readb(p->dev, p->bar, IOMMULAB_PORT_JOB + 2), ==,
                    ',');
    g_assert_cmphex(port_readq(p, IOMMULAB_PORT_JOB + 8), ==, 0);
    g_assert_cmphex(port_readq(p, IOMMULAB_PORT_BAR_SIZE - 8), ==, 0);

    /* It cannot be written */
    port_writeq(p, IOMMULAB_PORT_JOB, 0);
    g_assert_cmphex(port_readl(p, IOMMULAB_PORT_JOB), ==, ldl_le_p("ab,c"));
    port_free(p);

    p = port_new("");
    g_assert_cmphex(port_readq(p, IOMMULAB_PORT_JOB), ==, 0);
    port_free(p);
}

static void test_ready(void)
{
    Port *p = port_new("");
    QDict *answer;

    g_assert_cmphex(port_command(p, IOMMULAB_PORT_READY, 1), ==,
                    IOMMULAB_PORT_BAD_COMMAND);
    g_assert_cmphex(port_command(p, IOMMULAB_PORT_READY, 0), ==,
                    IOMMULAB_PORT_OK);
    answer = qtest_qmp(p->qts, "{'execute': 'query-status'}");
    g_assert_true(qdict_get_bool(qdict_get_qdict(answer, "return"),
                                 "running"));
    qobject_unref(answer);
    port_free(p);
}

static void test_ready_stops(void)
{
    Port *p = port_new(",stop-when-ready=on");

    g_assert_cmphex(port_command(p, IOMMULAB_PORT_READY, 1), ==,
                    IOMMULAB_PORT_BAD_COMMAND);
    port_writel(p, IOMMULAB_PORT_READY, 0);
    qtest_qmp_eventwait(p->qts, "STOP");
    port_free(p);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    qtest_add_func("/iommulab-port/identity", test_identity);
    qtest_add_func("/iommulab-port/access", test_access);
    qtest_add_func("/iommulab-port/output/bytes", test_output);
    qtest_add_func("/iommulab-port/output/limit", test_output_limit);
    qtest_add_func("/iommulab-port/output/unconnected",
                   test_output_unconnected);
    qtest_add_func("/iommulab-port/region", test_region);
    qtest_add_func("/iommulab-port/time", test_time);
    qtest_add_func("/iommulab-port/names/table", test_names);
    qtest_add_func("/iommulab-port/names/bad", test_names_bad);
    qtest_add_func("/iommulab-port/names/limit", test_names_limit);
    qtest_add_func("/iommulab-port/reset", test_reset);
    qtest_add_func("/iommulab-port/migrate", test_migrate);
    qtest_add_func("/iommulab-port/job", test_job);
    qtest_add_func("/iommulab-port/ready/goes-on", test_ready);
    qtest_add_func("/iommulab-port/ready/stops", test_ready_stops);
    qtest_add_data_func("/iommulab-port/exit/0", GINT_TO_POINTER(0),
                        test_exit);
    qtest_add_data_func("/iommulab-port/exit/5", GINT_TO_POINTER(5),
                        test_exit);
    qtest_add_data_func("/iommulab-port/exit/255", GINT_TO_POINTER(255),
                        test_exit);

    return g_test_run();
}
