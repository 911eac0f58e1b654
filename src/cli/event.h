/* SPDX-License-Identifier: Apache-2.0 */
/* Tells another program of a failure (--event-to). It sends the event to where the site wants it: we open no connection. */
#ifndef CLI_EVENT_H
#define CLI_EVENT_H

struct facts;
struct rc_err;
struct verdict;

/* `sentence`: the verdict's, without what is private, because it may leave the machine; NULL = none. Runs PROGRAM SENTENCE NAME=VALUE..., with what the bundle says and the bundle's address. Waits for two seconds at most. 0, or -errno with
 * *err: it cannot be run, ended with another status than 0, or had no time. */
int event_send(const char *program, const char *sentence, const struct verdict *verdict, const struct facts *judged, const char *bundle_path,
               struct rc_err *err);

#endif
