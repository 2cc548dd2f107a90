/*
 * QTest testcase for x2APIC MSRs under -icount
 *
 * Reading the local APIC's timer reads the virtual clock.  Under icount that
 * is only allowed in an instruction that was translated as I/O, which RDMSR
 * has to be, or in the last one of a translation block, which WRMSR always
 * is.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "libqtest.h"

/* The smallest image that -bios takes; it ends where the CPU starts */
#define BIOS_SIZE       (64 * 1024)
#define RESET_VECTOR    (BIOS_SIZE - 16)

/* isa-debug-exit makes an exit status of (value << 1) | 1 out of a value */
#define STATUS_PASS     ((0x10 << 1) | 1)

/* 16-bit code: x2APIC mode, APIC enabled */
static const uint8_t code_init[] = {
    0x66, 0xb9, 0x1b, 0x00, 0x00, 0x00,     /* mov $0x1b,%ecx   APIC_BASE */
    0x0f, 0x32,                             /* rdmsr */
    0x0d, 0x00, 0x0c,                       /* or $0xc00,%ax    EN, EXTD */
    0x0f, 0x30,                             /* wrmsr */
    0x66, 0xb9, 0x0f, 0x08, 0x00, 0x00,     /* mov $0x80f,%ecx  SVR */
    0x66, 0xb8, 0xff, 0x01, 0x00, 0x00,     /* mov $0x1ff,%eax  enable */
    0x66, 0x31, 0xd2,                       /* xor %edx,%edx */
    0x0f, 0x30,                             /* wrmsr */
};

/* Each of these leaves CF set if all went well */

static const uint8_t code_timer_write[] = {
    0x66, 0xb9, 0x38, 0x08, 0x00, 0x00,     /* mov $0x838,%ecx  TMICT */
    0x66, 0xb8, 0x56, 0x34, 0x12, 0x00,     /* mov $0x123456,%eax */
    0x0f, 0x30,                             /* wrmsr */
    0x66, 0x31, 0xc0,                       /* xor %eax,%eax */
    0x0f, 0x32,                             /* rdmsr */
    0x66, 0x2d, 0x56, 0x34, 0x12, 0x00,     /* sub $0x123456,%eax */
    0x66, 0x83, 0xe8, 0x01,                 /* sub $1,%eax */
};

static const uint8_t code_timer_read[] = {
    0x66, 0xb9, 0x39, 0x08, 0x00, 0x00,     /* mov $0x839,%ecx  TMCCT */
    0x66, 0xb8, 0xff, 0xff, 0xff, 0xff,     /* mov $-1,%eax */
    0x0f, 0x32,                             /* rdmsr */
    0x66, 0x83, 0xe8, 0x01,                 /* sub $1,%eax      stopped: 0 */
};

static const uint8_t code_timer_run[] = {
    0x66, 0xb9, 0x38, 0x08, 0x00, 0x00,     /* mov $0x838,%ecx  TMICT */
    0x66, 0xb8, 0x56, 0x34, 0x12, 0x00,     /* mov $0x123456,%eax */
    0x0f, 0x30,                             /* wrmsr */
    0x66, 0xb9, 0x39, 0x08, 0x00, 0x00,     /* mov $0x839,%ecx  TMCCT */
    0x0f, 0x32,                             /* rdmsr */
    0x66, 0x83, 0xe8, 0x01,                 /* sub $1,%eax      not 0, and */
    0x66, 0x3d, 0x55, 0x34, 0x12, 0x00,     /* cmp $0x123455,%eax    fewer */
};

static const uint8_t code_self_ipi[] = {
    0x66, 0xb9, 0x30, 0x08, 0x00, 0x00,     /* mov $0x830,%ecx  ICR */
    0x66, 0xb8, 0x31, 0x00, 0x04, 0x00,     /* mov $0x40031,%eax */
    0x66, 0x31, 0xd2,                       /* xor %edx,%edx */
    0x0f, 0x30,                             /* wrmsr */
    0x66, 0xb9, 0x21, 0x08, 0x00, 0x00,     /* mov $0x821,%ecx  IRR 63:32 */
    0x0f, 0x32,                             /* rdmsr */
    0x66, 0x0f, 0xba, 0xe0, 0x11,           /* bt $0x11,%eax    0x31 - 32 */
};

/* The value is 0x10 if CF is set, 0x0f otherwise */
static const uint8_t code_exit[] = {
    0xb0, 0x0f,                             /* mov $0xf,%al */
    0x14, 0x00,                             /* adc $0,%al */
    0xba, 0x01, 0x05,                       /* mov $0x501,%dx */
    0xee,                                   /* out %al,(%dx) */
    0xf4,                                   /* hlt */
};

typedef struct {
    const char *name;
    const uint8_t *code;
    size_t size;
} TestCase;

static const TestCase tests[] = {
    { "timer-write", code_timer_write, sizeof(code_timer_write) },
    { "timer-read", code_timer_read, sizeof(code_timer_read) },
    { "timer-run", code_timer_run, sizeof(code_timer_run) },
    { "self-ipi", code_self_ipi, sizeof(code_self_ipi) },
};

static size_t append(uint8_t *image, size_t at, const void *code, size_t size)
{
    memcpy(image + at, code, size);
    return at + size;
}

static void test_msr(const void *data)
{
    /* jmp to the image's first byte; the offset is of the next instruction */
    static const uint8_t jump[] = { 0xe9, 0x0d, 0x00 };
    const TestCase *test = data;
    g_autofree uint8_t *image = g_malloc0(BIOS_SIZE);
    g_autofree char *path = NULL;
    g_autoptr(GError) err = NULL;
    QTestState *qts;
    size_t at = 0;
    int fd;

    at = append(image, at, code_init, sizeof(code_init));
    at = append(image, at, test->code, test->size);
    at = append(image, at, code_exit, sizeof(code_exit));
    g_assert_cmpuint(at, <, RESET_VECTOR);
    append(image, RESET_VECTOR, jump, sizeof(jump));

    fd = g_file_open_tmp("qtest-icount-msr-XXXXXX", &path, &err);
    g_assert_no_error(err);
    g_assert_cmpint(write(fd, image, BIOS_SIZE), ==, BIOS_SIZE);
    close(fd);

    /* Stopped until the handshake with the monitor is over */
    qts = qtest_initf("-M q35 -accel tcg -icount shift=0 -cpu max -S "
                      "-nodefaults -device isa-debug-exit -bios %s", path);
    unlink(path);
    qtest_set_expected_status(qts, STATUS_PASS);
    qtest_qmp_send(qts, "{ 'execute': 'cont' }");
    qtest_wait_qemu(qts);
    qtest_quit(qts);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    if (!qtest_has_accel("tcg")) {
        g_test_skip("TCG is not available");
        return g_test_run();
    }

    for (int i = 0; i < ARRAY_SIZE(tests); i++) {
        g_autofree char *name = g_strdup_printf("/q35/icount-msr/%s",
                                                tests[i].name);
        qtest_add_data_func(name, &tests[i], test_msr);
    }
    return g_test_run();
}
