/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings: the options of a run, named in files and variables. From the weakest to the strongest:
 * the defaults, /etc/rocmcrash/config (below the sysroot), $XDG_CONFIG_HOME/rocmcrash/config,
 * ROCMCRASH_NAME variables. The command line is stronger than all of them and is not read here.
 *
 * A file has lines "name = value"; "#" begins a comment line. A switch is yes or no. What a file says
 * is used only where nobody else could have written it.
 */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include <stddef.h>

#include "base/fs.h"

struct option_def;
struct rc_err;

#define CONFIG_SETTINGS_MAX 32
#define CONFIG_FILES 2
#define CONFIG_FILE_MAX 16384

enum config_state {
    CONFIG_ABSENT,
    CONFIG_READ,
    CONFIG_REFUSED,
    CONFIG_HIDDEN, /* the folder is closed to us (HOME of another user): it is not known whether there is a file */
};

struct config_file {
    char path[FS_PATH_MAX]; /* "" = there is no place for it */
    enum config_state state;
    char reason[160];           /* of CONFIG_REFUSED */
    char text[CONFIG_FILE_MAX]; /* cut into the values below */
};

struct config_setting {
    const struct option_def *option;
    const char *value; /* NULL = none, and no default */
    const char *file;  /* or the variable; NULL = the default */
    unsigned line;     /* 0 = no file */
};

struct config {
    struct config_file files[CONFIG_FILES];
    size_t count;
    struct config_setting settings[CONFIG_SETTINGS_MAX];
};

/* A default of a setting; the list ends with {NULL, NULL}. */
struct config_default {
    const char *name, *value;
};

/* Can the option be a setting? Not --help, and not one that only repeats what another option says. */
int config_is_setting(const struct option_def *option);
/* "ROCMCRASH_BUNDLE_ON" of "bundle-on". */
void config_variable(const struct option_def *option, char *out, size_t size);

/* `config` must be zeroed and live as long as what is applied from it. 0, or -EINVAL with
 * "FILE:LINE: ..." for a line that is wrong. A file that is refused is no error. */
int config_load(struct config *config, const struct option_def *table,
                const struct config_default *defaults, struct rc_err *err);
/* Each setting in force, by the parsers of the table. 0, or -EINVAL with *err, which names where the
 * value comes from. */
int config_apply(const struct config *config, void *target, struct rc_err *err);

#endif
