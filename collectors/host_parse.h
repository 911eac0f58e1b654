/* SPDX-License-Identifier: Apache-2.0 */
/* Parsers of the host's texts. Pure: bytes in, values out. */
#ifndef COLLECTORS_HOST_PARSE_H
#define COLLECTORS_HOST_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* The value of KEY in os-release, without its quotes. */
bool host_os_release(const char *text, const char *key, char *out, size_t size);
/* Model of the first CPU and the number of CPUs in /proc/cpuinfo. */
bool host_cpu(const char *text, char *model, size_t size, int64_t *ret_count);
/* "MemTotal:" in bytes. */
bool host_meminfo(const char *text, const char *key, uint64_t *ret_bytes);
/* /proc/cmdline with the values of all but the known harmless keys replaced. */
void host_append_cmdline(struct buf *out, const char *text);
/* Lines of /proc/modules that concern GPUs: name, bytes, used by. */
void host_append_modules(struct buf *out, const char *text);

#endif
