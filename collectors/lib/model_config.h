/* SPDX-License-Identifier: Apache-2.0 */
/* config.json, which lies beside the safetensors of a model and holds what their headers lack: layers and heads. */
#ifndef COLLECTORS_LIB_MODEL_CONFIG_H
#define COLLECTORS_LIB_MODEL_CONFIG_H

#include <stddef.h>

struct weights;

/* Sets fields of w, w->architecture and w->cache_odd. If the text is no such JSON, w->problem says so. */
void model_config_read(const char *text, size_t len, struct weights *w);

#endif
