/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cppcheck does not read cJSON's header, so it gets this macro: a loop, not a call. (-D cannot define it,
 * because cppcheck splits definitions at ';'.)
 */
#define cJSON_ArrayForEach(element, array)                                                         \
    for (element = (array) != NULL ? (array)->child : NULL; element != NULL; element = element->next)
