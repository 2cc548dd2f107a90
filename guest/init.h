/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What init.c has for the other programs of /init.
 */
#ifndef INIT_H
#define INIT_H

#include <stdbool.h>
#include <stddef.h>

#define LAB "/sys/kernel/debug/iommulab"

/* Put one line, which ends in a newline, where the host looks for it. */
void put_line(const char *line);

/* Report an error in one line and end the machine with status 1. */
void __attribute__((noreturn, format(printf, 1, 2)))
fail(const char *format, ...);

/* Read a file of one line, without its end; false if there is none. */
bool read_line(const char *path, char *s, size_t size);

/* Write all of it at once; false sets errno. */
bool write_file(const char *path, const char *s);

/* The last line of the kernel's log that has these words, or NULL. */
const char *kernel_message(const char *words);

/* Give the device the driver chosen for it, and take it away. */
void bind_driver(const char *address);
void unbind_driver(const char *address);

/* Where the mode of a knob is, PATH_MAX: of the device's group, or of all. */
void knob_path(char *path, const char *address, const char *name);

/* Give the group of a device, which has a driver, this type of domain. */
void set_domain(const char *address, const char *type);

#endif
