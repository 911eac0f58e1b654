/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers shared by features*.c: reading inputs, writing results with their sources. */
#ifndef DIAGNOSE_FEATURES_INTERNAL_H
#define DIAGNOSE_FEATURES_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

struct facts;

#define FEATURE_SOURCE_MAX 512

/* A number (or boolean) that is present. */
bool feature_input(const struct facts *facts, const char *name, double *ret);
double feature_input_or(const struct facts *facts, const char *name, double otherwise);
/* A text that is present and not empty. */
bool feature_text(const struct facts *facts, const char *name, const char **ret);

/* "computed from a (where a came from), b (...)" */
void feature_source(const struct facts *facts, const char *const *names, size_t count, char *out,
                    size_t size);
void feature_set(struct facts *facts, const char *name, double value, const char *const *inputs,
                 size_t count);
void feature_flag(struct facts *facts, const char *name, bool value, const char *const *inputs,
                  size_t count);
/* `part` of `whole` in percent. */
void feature_share(struct facts *facts, const char *feature, const char *part, const char *whole);
/* An integer if the value is integral, else a real number. */
void feature_set_number(struct facts *facts, const char *name, double value, const char *source);
/* The header of the only model file that was open (features_model.c); false: none, or several
 * files. */
struct feature_model {
    double weights, layers, embedding, heads, kv_heads, context;
    double cache_per_token; /* of all layers, in f16; 0 = not linear in the context, or not known */
    /* Without flash attention the compute buffer grows with the context, too, by the scores of a
     * batch (measured 35 kB a token where this says 32 KiB: llama.cpp 0.5, 16 heads, -ub 512).
     */
    double scores_per_token;
    const char *type;
};
bool feature_model(const struct facts *facts, struct feature_model *ret);

/* The reason names the missing inputs. */
void feature_missing(struct facts *facts, const char *name, const char *const *inputs,
                     size_t count);

void features_gpu(struct facts *facts);      /* which GPU the failure is about */
void features_siblings(struct facts *facts); /* the command's other processes on it */
void features_model(struct facts *facts);    /* which part of a model was refused, what would fit */
void features_engine(struct facts *facts);   /* what llama.cpp says of itself */

#endif
