/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Python hook (inject/python) and the target: the two variables by which a Python finds it, set
 * in the child before its exec, and what the supervisor asks of the files that the hook left.
 */
#ifndef LAUNCH_INJECT_PYTHON_H
#define LAUNCH_INJECT_PYTHON_H

#include <stdbool.h>

struct launch_options;
struct shared;

/* In the supervisor: decides whether there is a hook, and where it writes (run.hook_dir). A state
 * folder that does not answer means none. */
void inject_python_plan(struct shared *shared, const struct launch_options *options);

/* In the child: PYTHONPATH gets the hook's folder in front, ROCMCRASH_HOOK says where to write.
 * A failure here leaves the environment as it was. */
void inject_python(struct shared *shared, const struct launch_options *options);

/* Did the hook see an allocation of PyTorch fail? A program may swallow the exception and leave
 * without a word. */
bool inject_python_saw_oom(const struct shared *shared);

/* In the recorder: remove what the hook alone has made of a run directory, as the run was shorter
 * than the recorder's patience, or found room elsewhere, and there is nothing to keep. */
void inject_python_remove(const struct shared *shared);

#endif
