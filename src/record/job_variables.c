/* SPDX-License-Identifier: Apache-2.0 */
#include "record/job_variables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For each fact in order of trust: the launcher nearest to the program first. With torchrun under
 * srun, RANK counts over all nodes, and SLURM_PROCID counts the agents. Open MPI's
 * OMPI_COMM_WORLD_NODE_RANK is no node: it counts the processes of a node. */
const struct job_number job_numbers[JOB_NUMBERS] = {
    {"job.rank",
     {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID",
      "JOB_COMPLETION_INDEX"}},
    {"job.world_size", {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}},
    {"job.local_rank",
     {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}},
    {"job.local_world_size", {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}},
    {"job.node_rank", {"GROUP_RANK", "NODE_RANK", "SLURM_NODEID"}},
    {"job.nodes_count", {"GROUP_WORLD_SIZE", "SLURM_JOB_NUM_NODES", "SLURM_NNODES"}},
    {"job.id", {"SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"}},
    {"job.step_id", {"SLURM_STEP_ID", "SLURM_STEPID"}},
    {"job.array_task_id", {"SLURM_ARRAY_TASK_ID"}},
    {"job.restart_count", {"TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"}},
    {"job.max_restarts", {"TORCHELASTIC_MAX_RESTARTS"}},
    {"job.gpus_on_node_count", {"SLURM_GPUS_ON_NODE"}},
    {"job.memory_per_node_mib", {"SLURM_MEM_PER_NODE"}},
};

/* The launchers, each recognised by a variable that only it sets; nearest first. */
const struct job_launcher job_launchers[JOB_LAUNCHERS] = {
    {"torchrun", "TORCHELASTIC_RUN_ID"},
    {"ray", "RAY_JOB_ID"},
    {"openmpi", "OMPI_COMM_WORLD_SIZE"},
    {"pmix", "PMIX_RANK"},
    {"pmi", "PMI_RANK"},
    {"slurm", "SLURM_JOB_ID"},
    {"pbs", "PBS_JOBID"},
    {"lsf", "LSB_JOBID"},
    {"flux", "FLUX_JOB_ID"},
    {"kubernetes", "KUBERNETES_SERVICE_HOST"},
};

/* A text may name a person or a project: only that it is there is kept. */
static const char *number_or_nothing(const char *value)
{
    return value[strspn(value, "0123456789")] == '\0' ? value : "";
}

static void keep(const char *variable, char *out, size_t size)
{
    const char *value = getenv(variable);
    size_t len = strlen(out);
    if (value == NULL)
        return;
    int n = snprintf(out + len, size - len, "%s=%s\n", variable, number_or_nothing(value));
    if (n < 0 || (size_t)n >= size - len)
        out[len] = '\0'; /* half a number is another number */
}

void job_variables_keep(char *out, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; i < JOB_NUMBERS; i++)
        for (const char *const *variable = job_numbers[i].variables; *variable != NULL; variable++)
            keep(*variable, out, size);
    for (size_t i = 0; i < JOB_LAUNCHERS; i++)
        keep(job_launchers[i].variable, out, size);
}

const char **job_variables_list(char *lines)
{
    size_t count = 1;
    for (const char *at = lines; *at != '\0'; at++)
        count += *at == '\n';
    const char **list = calloc(count, sizeof *list);
    char *rest = NULL;
    size_t n = 0;
    for (char *line = strtok_r(lines, "\n", &rest); list != NULL && line != NULL && n + 1 < count; line = strtok_r(NULL, "\n", &rest))
        list[n++] = line;
    return list;
}

/* "8", "8(x4)", "8,7(x3)": Slurm has a number for each node, the first one's stands for all. */
static unsigned ranks_by(const char *variable)
{
    const char *value = getenv(variable);
    unsigned long count = value != NULL ? strtoul(value, NULL, 10) : 0;
    return count <= JOB_RANKS_HERE_MAX ? (unsigned)count : 0;
}

unsigned job_ranks_here(void)
{
    unsigned count = 0;
    for (size_t i = 0; i < JOB_NUMBERS; i++)
        if (strcmp(job_numbers[i].fact, "job.local_world_size") == 0)
            for (const char *const *variable = job_numbers[i].variables; count == 0 && *variable != NULL; variable++)
                count = ranks_by(*variable);
    if (count == 0)
        count = ranks_by("SLURM_STEP_TASKS_PER_NODE");
    return count > 0 ? count : 1;
}
