/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fit --model`: the memory that a model needs by the header of its file, and the memory that the GPUs of
 * this machine have free now. An estimate, which lists what it does not count.
 */
#ifndef CLI_FIT_MODEL_H
#define CLI_FIT_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "collectors/lib/weights.h"

struct cJSON;
struct rc_err;

#define FIT_GPUS_MAX 16

struct fit_gpu {
    int number;         /* -1: the user has named the room */
    double free_bytes;
    bool is_apu;        /* an APU: programs also use GTT, so VRAM alone is not the room */
};

struct fit_estimate {
    char name[128];        /* of the file or folder */
    struct weights header; /* of the file, or the first of several; tensor_bytes of all */
    unsigned files;
    uint64_t cache_elements; /* a token, in all layers; valid where `cache_unknown` is "" */
    char cache_unknown[160]; /* why it is not known */
    unsigned gpus;
    struct fit_gpu gpu[FIT_GPUS_MAX];
};

/* Reads a GGUF file (with its parts), or a folder with config.json and safetensors (or one of its files). 0; -errno
 * with *err: there is no header, it is cut, or it has tensors of unknown size. */
int fit_model_read(struct fit_estimate *ret, const char *path, struct rc_err *err);
/* The memory of the GPUs that is free now; `room_bytes` > 0: this size instead. 0 or -errno with *err. */
int fit_model_rooms(struct fit_estimate *estimate, double room_bytes, struct rc_err *err);
/* In words on stdout. */
void fit_model_print(const struct fit_estimate *estimate);
struct cJSON *fit_model_to_json(const struct fit_estimate *estimate);
/* The value with which a search for the largest context or number of layers starts: what fits by the estimate, with a
 * tenth of the memory left for what it does not count. False: not known, or the option is another one. */
bool fit_model_start(const struct fit_estimate *estimate, const char *option, int64_t *ret);

#endif
