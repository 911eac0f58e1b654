/* SPDX-License-Identifier: Apache-2.0 */
/* config.json, which lies beside the safetensors of a model and has what their headers have not: layers and heads. */
#ifndef COLLECTORS_LIB_MODEL_CONFIG_H
#define COLLECTORS_LIB_MODEL_CONFIG_H

#include <stddef.h>

struct weights;

/* Sets fields of w, w->architecture and w->cache_odd. What is no such JSON goes to w->problem. */
void model_config_read(const char *text, size_t len, struct weights *w);

#endif
