/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/json_print.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/say.h"

int json_print(cJSON *json, enum json_form form)
{
    RC_AUTO_FREE char *text = json == NULL        ? NULL
                              : form == JSON_LINE ? cJSON_PrintUnformatted(json)
                                                  : cJSON_Print(json);
    cJSON_Delete(json);
    return text != NULL ? say_json(stdout, text) : -EIO;
}
