/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of the emulated kernel: the journal (ROOT/emulator/log.jsonl, or EMULATOR_LOG), one
 * JSON object a line, the oracle of the tests; and the kernel log (ROOT/dev/kmsg). Each record is
 * one write() to a file opened O_APPEND. Called with the state lock held, so that the order of the
 * lines is the order of the events.
 */
#ifndef EMULATOR_JOURNAL_H
#define EMULATOR_JOURNAL_H

int journal_open(void);
/* Members of the object without the braces: "\"event\":\"free\",\"size\":%lu". Keeps errno. */
void journal(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* level: 3 error, 4 warning, 6 info. No newline at the end. */
void kmsg(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
