/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `rocmcrash [OPTIONS] -- COMMAND`. */
#ifndef CLI_RUN_OPTIONS_H
#define CLI_RUN_OPTIONS_H

#include <stdbool.h>

#include "cli/config.h"
#include "cli/option.h"
#include "launch/options.h"

struct command_line {
    struct launch_options launch;
    bool help, version;
};

option_parser option_conditions; /* struct condition_list (telemetry/condition.h) */
option_parser option_conditions_outside; /* the same, of a process that somebody else started */

extern const struct option_def run_options[]; /* their target is a struct command_line, with `follow` set */
/* Values of options that nobody set. The options' help shows them, too. */
extern const struct config_default run_defaults[];

#endif
