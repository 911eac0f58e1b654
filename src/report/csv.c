/* SPDX-License-Identifier: Apache-2.0 */
#include "report/csv.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t count_of(const char *text, size_t len, char c)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += text[i] == c;
    return n;
}

static int read_names(struct csv *t, const char *line, size_t len)
{
    size_t columns = count_of(line, len, ',') + 1;
    if (columns > CSV_COLUMNS_MAX)
        return 0;
    t->columns = columns;
    t->names = calloc(t->columns, sizeof *t->names);
    if (t->names == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < t->columns; i++) {
        size_t n = strcspn(line, ",\n");
        t->names[i] = strndup(line, n);
        if (t->names[i] == NULL)
            return -ENOMEM;
        line += n + 1;
    }
    return 0;
}

static void read_rows(struct csv *t, const char *text)
{
    for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        if (count_of(text, (size_t)(end - text), ',') + 1 < t->columns)
            continue;
        const char **cell = t->cells + t->rows++ * t->columns;
        for (size_t i = 0; i < t->columns; i++) {
            cell[i] = text;
            text += strcspn(text, ",\n") + 1;
        }
    }
}

static int read_table(struct csv *t, const char *text)
{
    size_t len = strcspn(text, "\n");
    if (text[len] == '\0')
        return 0;
    int r = read_names(t, text, len);
    if (r < 0 || t->columns == 0)
        return r;
    text += len + 1;
    t->cells = calloc(count_of(text, strlen(text), '\n') * t->columns + 1, sizeof *t->cells);
    if (t->cells == NULL)
        return -ENOMEM;
    read_rows(t, text);
    return 0;
}

int csv_read(struct csv *ret, const char *text)
{
    *ret = (struct csv){.rows = 0};
    int r = read_table(ret, text);
    if (r < 0)
        csv_release(ret);
    return r;
}

void csv_release(struct csv *t)
{
    for (size_t i = 0; t->names != NULL && i < t->columns; i++)
        free(t->names[i]);
    free(t->names);
    free((void *)t->cells);
    *t = (struct csv){.rows = 0};
}

size_t csv_column(const struct csv *t, const char *name)
{
    for (size_t i = 0; t->names != NULL && i < t->columns; i++) {
        if (strcmp(t->names[i], name) == 0)
            return i;
    }
    return CSV_NONE;
}

const char *csv_text(const struct csv *t, size_t row, size_t column)
{
    return row < t->rows && column < t->columns ? t->cells[row * t->columns + column] : "";
}

double csv_number(const struct csv *t, size_t row, size_t column)
{
    char *end;
    const char *text = csv_text(t, row, column);
    if (isspace((unsigned char)*text)) /* strtod() would read past the end of the line */
        return NAN;
    double value = strtod(text, &end);
    return end == text || (*end != ',' && *end != '\n') ? NAN : value;
}
