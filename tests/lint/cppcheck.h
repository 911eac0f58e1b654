/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cppcheck has to know of a library whose header it is not given: cJSON's loop, which is a for
 * statement and not a call. (As -D it cannot be said: cppcheck splits definitions at ';'.)
 */
#define cJSON_ArrayForEach(element, array)                                                         \
    for (element = (array) != NULL ? (array)->child : NULL; element != NULL; element = element->next)
