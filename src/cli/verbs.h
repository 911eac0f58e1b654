/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of rocmcrash-finish; each parses what follows its name and returns the exit status. */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

enum verb_exit {
    VERB_EXIT_OK = 0,
    VERB_EXIT_BAD = 1,     /* verify: the bundle is not good; doctor: something is wrong */
    VERB_EXIT_FAILED = 2,  /* could not be done: unreadable, not found, no room */
    VERB_EXIT_USAGE = 125, /* wrong option or argument */
};

struct rc_err;

/* One line on stderr; names the file (NULL = none) when the message does not. Without a message none. */
void verb_complain(const char *path, const struct rc_err *err);
/* One line on stderr if a bundle of which a part was read is damaged or was changed. */
void verb_tell_damage(const char *path);
/* The same for what bundle_read_verified() found; no message = nothing. */
void verb_say_damage(const char *path, const struct rc_err *damage);

int verb_run(int argc, char *argv[]);    /* internal: bundle the run of --shared-fd */
int verb_record(int argc, char *argv[]); /* internal: note a swallowed out-of-memory error */
int verb_ended(int argc, char *argv[]);  /* internal: note a rank that was asked to end */
int verb_recover(int argc, char *argv[]);
int verb_show(int argc, char *argv[]);
int verb_verify(int argc, char *argv[]);
int verb_triage(int argc, char *argv[]);
int verb_complete(int argc, char *argv[]);
int verb_redact(int argc, char *argv[]);
int verb_config(int argc, char *argv[]);
int verb_collectors(int argc, char *argv[]);
int verb_doctor(int argc, char *argv[]);
int verb_rerun(int argc, char *argv[]);
int verb_try(int argc, char *argv[]);
int verb_fit(int argc, char *argv[]);
int verb_diff(int argc, char *argv[]);
int verb_fleet(int argc, char *argv[]);
int verb_export(int argc, char *argv[]);
int verb_stacks(int argc, char *argv[]);
int verb_release(int argc, char *argv[]);
int verb_issue(int argc, char *argv[]);
int verb_reveal(int argc, char *argv[]);
int verb_open(int argc, char *argv[]);
int verb_list(int argc, char *argv[]);
int verb_failed(int argc, char *argv[]);  /* internal: VERB MESSAGE as the object of --json */
int verb_version(int argc, char *argv[]); /* internal: the libraries, for --version */

/* In the child that becomes a user's command: SIGCHLD as this program found it. It is not ignored here, as
 * nobody could wait for a child then. */
void verb_put_back_child_signal(void);

#endif
