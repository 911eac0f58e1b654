/* SPDX-License-Identifier: Apache-2.0 */
/* The charts of a page: parts from the tables of a bundle, gaps, peaks, and texts that are no table. */
#include "base/buf.h"
#include "report/chart.h"
#include "report/csv.h"
#include "report/html.h"
#include "report/report.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#define GIB (1024.0 * 1024.0 * 1024.0)
#define HEADER                                                                                     \
    "time_s,flags,gpu.0.vram.total_bytes,gpu.0.vram.used_bytes,gpu.0.others_kfd_vram_bytes,"       \
    "proc.7.rss_bytes,proc.7.kfd_vram_bytes,proc.7.outside,proc.9.rss_bytes,proc.9.kfd_vram_bytes," \
    "proc.9.outside\n"
#define TORCH "time_s,device,allocated_bytes,reserved_bytes\n"

static const struct chart_part *part(const struct chart *chart, const char *label)
{
    for (size_t i = 0; i < chart->part_count; i++) {
        if (strstr(chart->parts[i].label, label) != NULL)
            return &chart->parts[i];
    }
    fail_msg("no part '%s'", label);
    return NULL;
}

static void parts_add_up_to_what_is_used(void **state)
{
    static const char telemetry[] =
        HEADER "0.5,,17179869184,10737418240,2147483648,,6442450944,,,,\n"
               "1.0,impact,17179869184,12884901888,2147483648,1048576,8589934592,,1,1073741824,1\n";
    static const char torch[] = TORCH "0.4,0,3221225472,5368709120\n0.9,0,4294967296,7516192768\n"
                                      "0.95,1,1,2\n7,0,9,9\n";
    struct charts c;
    (void)state;
    assert_int_equal(charts_read(&c, telemetry, torch, false), 0);
    assert_int_equal(c.rows, 2);
    const struct chart *vram = &c.charts[0];
    assert_string_equal(vram->title, "GPU 0 VRAM");
    assert_true(vram->limit_bytes == 16 * GIB);
    for (size_t row = 0; row < 2; row++) {
        double sum = 0;
        for (size_t i = 0; i < vram->part_count; i++)
            sum += vram->parts[i].bytes[row];
        assert_true(sum == (row == 0 ? 10 : 12) * GIB);
    }
    assert_true(part(vram, "other processes")->bytes[1] == 2 * GIB);
    /* Process 9 is not the program's. The allocator's row of 0.9 s is the last before 1.0. */
    assert_true(part(vram, "in use in PyTorch")->bytes[1] == 4 * GIB);
    assert_true(part(vram, "idle in PyTorch")->bytes[1] == 3 * GIB);
    assert_true(part(vram, "outside PyTorch")->bytes[1] == 1 * GIB);
    assert_true(part(vram, "not known")->bytes[1] == 2 * GIB);
    assert_int_equal(c.mark_count, 1);
    assert_string_equal(c.marks[0].label, "failure");
    charts_release(&c);
}

/* KFD's figure for the process includes its GTT. */
static void vram_of_an_apu_has_no_owner_by_kfd(void **state)
{
    static const char telemetry[] = HEADER "0.5,,536870912,201326592,0,,6442450944,,,,\n";
    (void)state;
    for (int is_apu = 0; is_apu < 2; is_apu++) {
        struct charts c;
        assert_int_equal(charts_read(&c, telemetry, NULL, is_apu == 1), 0);
        assert_true(part(&c.charts[0], "this program")->bytes[0] == (is_apu ? 0 : 201326592));
        assert_true(part(&c.charts[0], "not known")->bytes[0] == (is_apu ? 201326592 : 0));
        charts_release(&c);
    }
}

/* Two ranks of a job, a launcher that holds almost no memory, and another user's process. */
static void each_rank_is_seen(void **state)
{
    static const char header[] =
        "time_s,flags,gpu.0.vram.used_bytes,proc.7.rss_bytes,proc.7.kfd_vram_bytes,proc.8.rss_bytes,"
        "proc.8.kfd_vram_bytes,proc.9.rss_bytes,proc.9.kfd_vram_bytes,proc.9.outside,proc.6.rss_bytes,"
        "proc.6.kfd_vram_bytes\n";
    static const char two[] = "0.5,,17179869184,1,1073741824,1,4294967296,1,8589934592,1,1,4096\n";
    static const char one[] = "0.5,,17179869184,1,1073741824,1,4096,1,8589934592,1,1,4096\n";
    struct buf telemetry = BUF_INIT;
    struct charts c;
    (void)state;
    buf_printf(&telemetry, "%s%s", header, two);
    assert_int_equal(charts_read(&c, buf_str(&telemetry), NULL, false), 0);
    assert_int_equal(c.count, 2);
    const struct chart *ranks = &c.charts[1];
    assert_string_equal(ranks->title, "GPU memory of this program's processes");
    assert_int_equal(ranks->part_count, 2);
    assert_string_equal(ranks->parts[0].label, "process 8"); /* the largest first */
    assert_true(part(ranks, "process 8")->bytes[0] == 4 * GIB);
    assert_true(part(ranks, "process 7")->bytes[0] == 1 * GIB);
    charts_release(&c);
    static const char *const facts[] = {
        "{\"facts\":[{\"name\":\"target.failed_pid\",\"value\":8},{\"name\":\"job.rank\",\"value\":3}]}",
        "{\"facts\":[{\"name\":\"target.failed_pid\",\"value\":8}]}", "{}"};
    static const char *const labels[] = {"process 8, rank 3, failed", "process 8, failed", "process 8"};
    for (size_t i = 0; i < 3; i++) {
        cJSON *document = cJSON_Parse(facts[i]);
        assert_int_equal(charts_of_bundle(&c, document, buf_str(&telemetry), NULL), 0);
        assert_string_equal(c.charts[1].parts[0].label, labels[i]);
        assert_string_equal(c.charts[1].parts[1].label, "process 7");
        charts_release(&c);
        cJSON_Delete(document);
    }
    buf_release(&telemetry);
    buf_printf(&telemetry, "%s%s", header, one);
    assert_int_equal(charts_read(&c, buf_str(&telemetry), NULL, false), 0);
    assert_int_equal(c.count, 1); /* the GPU's chart already shows a single process */
    charts_release(&c);
    buf_release(&telemetry);
}

static void what_nobody_sampled_is_a_gap(void **state)
{
    static const char telemetry[] = HEADER "0.5,,17179869184,,,,,,,,\n0.6,,17179869184,1073741824,,,,,,,\n";
    struct charts c;
    (void)state;
    assert_int_equal(charts_read(&c, telemetry, NULL, false), 0);
    assert_true(isnan(part(&c.charts[0], "this program")->bytes[0]));
    assert_true(part(&c.charts[0], "not known")->bytes[1] == 1 * GIB);
    struct buf json = BUF_INIT;
    charts_to_json(&c, &json);
    cJSON *doc = cJSON_Parse(buf_str(&json));
    assert_non_null(doc);
    assert_non_null(strstr(buf_str(&json), "[null,0.0]"));
    cJSON_Delete(doc);
    buf_release(&json);
    charts_release(&c);
}

/* A day of samples: one row in 30 is drawn, and the row of the peak is among them. */
static void a_peak_is_not_thinned_away(void **state)
{
    enum { ROWS = 24000, PEAK = 13337 };
    struct buf csv = BUF_INIT;
    struct charts c;
    double most = 0;
    (void)state;
    buf_puts(&csv, HEADER);
    for (int row = 0; row < ROWS; row++)
        buf_printf(&csv, "%d,%s,17179869184,%d,,,,,,,\n", row, row == 20001 ? "impact" : "",
                   row == PEAK ? 2000000000 : 1000000000 + row);
    assert_int_equal(charts_read(&c, buf_str(&csv), NULL, false), 0);
    assert_in_range(c.rows, CHART_ROWS_MAX / 2, CHART_ROWS_MAX + 1);
    for (size_t row = 0; row < c.rows; row++)
        most = fmax(most, part(&c.charts[0], "not known")->bytes[row]);
    assert_true(most == 2000000000);
    assert_int_equal(c.mark_count, 1);
    assert_true(c.marks[0].time_s == 20001);
    charts_release(&c);
    buf_release(&csv);
}

static void no_table_gives_no_chart(void **state)
{
    static const char *const tables[] = {NULL, "", "time_s", "time_s,flags\n", "\n\n\n", ",,,\n1\n",
                                         "time_s,flags\n1,\n", "\xff\xfe,\n\x00"};
    (void)state;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        struct charts c;
        struct buf json = BUF_INIT;
        assert_int_equal(charts_read(&c, tables[i], tables[i], false), 0);
        assert_int_equal(c.count, 0);
        charts_to_json(&c, &json);
        cJSON *doc = cJSON_Parse(buf_str(&json));
        assert_non_null(doc);
        cJSON_Delete(doc);
        buf_release(&json);
        charts_release(&c);
    }
}

static void a_drawing_has_its_parts_and_its_limit(void **state)
{
    static const char telemetry[] = HEADER "0,,17179869184,10737418240,,,,,,,\n1,,17179869184,10737418240,,,,,,,\n";
    struct charts c;
    struct buf svg = BUF_INIT;
    (void)state;
    assert_int_equal(charts_read(&c, telemetry, NULL, false), 0);
    chart_to_svg(&c, &c.charts[0], &svg);
    assert_non_null(strstr(buf_str(&svg), "class=\"part part1\""));
    assert_non_null(strstr(buf_str(&svg), "16.00 GiB"));
    /* 10 of 16 GiB: 5/8 of the 168 units above the ground at 190. */
    assert_non_null(strstr(buf_str(&svg), "L8.0 85.0"));
    buf_release(&svg);
    charts_release(&c);
}

/* Other programs hold 4 of 16 GiB; 4 more are added in the second half. A row has 4 dots; 6 rows are 16 GiB. */
static void a_terminal_gets_braille_or_letters(void **state)
{
    static const char telemetry[] =
        HEADER "0,,17179869184,4294967296,4294967296,,,,,,\n"
               "5,,17179869184,4294967296,4294967296,,,,,,\n"
               "10,impact,17179869184,12884901888,4294967296,1048576,8589934592,,,,\n";
    const struct report_style ascii = {.columns = 50, .line_end = "\n"};
    const struct report_style utf8 = {.columns = 50, .utf8 = true, .colour = true, .line_end = "\n"};
    struct charts c;
    struct buf out = BUF_INIT;
    (void)state;
    assert_int_equal(charts_read(&c, telemetry, NULL, false), 0);
    assert_int_equal(charts_to_terminal(&c, 4, &ascii, &out), 1);
    assert_string_equal(buf_str(&out),
                        "GPU 0 VRAM: peak 12.00 GiB, limit 16.00 GiB\n"
                        " 16.00 GiB |\n"
                        "           |                                  c\n"
                        "           |                                  c\n"
                        "           |                                  c\n"
                        "           |ooooooooooooooooooooooooooooooooooo\n"
                        "         0 |ooooooooooooooooooooooooooooooooooo\n"
                        "            0.0 s                        10.0 s\n"
                        "                                      failure ^\n"
                        "            o other processes\n"
                        "            ? in use, holder not known\n"
                        "            c this program\n");
    buf_release(&out);
    assert_int_equal(charts_to_terminal(&c, 4, &utf8, &out), 1);
    /* The lowest row has only the others' dots; the last half of a cell is the program's. */
    assert_non_null(strstr(buf_str(&out), "         0 │\x1b[33m⣒\x1b[0m\x1b[33m⣒\x1b[0m"));
    assert_non_null(strstr(buf_str(&out), "\x1b[34m⡪\x1b[0m this program\n"));
    assert_int_equal(charts_to_terminal(&c, 0, &utf8, &out), 0);
    buf_release(&out);
    charts_release(&c);
}

static void what_does_not_change_is_not_drawn(void **state)
{
    static const char flat[] = HEADER "0,,17179869184,4294967296,,,,,,,\n9,,17179869184,4294967296,,,,,,,\n";
    const struct report_style style = {.columns = 1, .utf8 = true, .line_end = "\n"};
    struct charts c;
    struct buf out = BUF_INIT;
    (void)state;
    assert_int_equal(charts_read(&c, flat, NULL, false), 0);
    assert_int_equal(charts_to_terminal(&c, 4, &style, &out), 0);
    charts_release(&c);
    assert_int_equal(charts_read(&c, "", "", false), 0);
    assert_int_equal(charts_to_terminal(&c, 4, &style, &out), 0);
    charts_release(&c);
    assert_int_equal(out.len, 0);
    buf_release(&out);
}

#define HOSTILE "</script><script>alert(1)</script><img src=x onerror=alert(1)>\\u202e&lt;"

static void an_empty_cell_is_missing_wherever_it_stands(void **state)
{
    struct csv t;
    (void)state;
    assert_int_equal(csv_read(&t, "a,b\n1,\n2,3\n4, \n"), 0);
    assert_int_equal(t.rows, 3);
    assert_true(isnan(csv_number(&t, 0, 1))); /* not the 2 that begins the next line */
    assert_true(csv_number(&t, 1, 1) == 3);
    assert_true(isnan(csv_number(&t, 2, 1)));
    csv_release(&t);
}

/* A stranger's bundle: the cost must not grow with the square of its size. */
static char *many(const char *begin, const char *each, size_t count, const char *end)
{
    struct buf text;
    buf_init(&text, (size_t)64 << 20);
    buf_puts(&text, begin);
    for (size_t i = 0; i < count; i++)
        buf_puts(&text, each);
    buf_puts(&text, end);
    char *copy = strdup(buf_str(&text));
    assert_non_null(copy);
    buf_release(&text);
    return copy;
}

static void a_huge_list_costs_its_length(void **state)
{
    struct buf page = BUF_INIT;
    char *snapshot = many("{\"segments\":[0", ",1", 1000000, "]}");
    (void)state;
    report_html(&(struct report_files){.summary = "# x\n", .snapshot = snapshot}, &page);
    const char *list = strstr(buf_str(&page), "\"segments\":[0,1,1");
    assert_non_null(list);
    assert_int_equal(strcspn(list, "]") - strlen("\"segments\":["), 2 * 600 - 1);
    buf_release(&page);
    free(snapshot);
}

static void a_huge_line_of_names_costs_its_length(void **state)
{
    struct charts c;
    (void)state;
    for (size_t columns = 60000; columns <= 600000; columns *= 10) {
        char *names = many("time_s,flags", ",proc.1.rss_bytes", columns, ",proc.1.outside\n1,");
        char *table = many(names, ",", columns, ",1\n");
        assert_int_equal(charts_read(&c, table, NULL, false), 0);
        assert_int_equal(c.rows, columns < CSV_COLUMNS_MAX ? 1 : 0);
        charts_release(&c);
        free(table);
        free(names);
    }
}

static void nothing_in_the_page_is_markup(void **state)
{
    struct buf page = BUF_INIT;
    (void)state;
    report_html(&(struct report_files){
                    .summary = "# GPU <b>out</b> </script> of memory\n\n## What the program said\n\n"
                               "```text\n</script><script>alert(1)</script>\n```\n",
                    .verdict = "{\"class\":\"" HOSTILE "\"}",
                    .facts = "{\"facts\":[{\"name\":\"" HOSTILE "\",\"value\":\"<!--<script>\"}]}",
                    .output = "</script>\xe2\x80\xae\xff<!--",
                    .bundle_name = "</title>",
                    .tool_version = "1"},
                &page);
    /* Four elements of ours: the evidence, the charts, the chart library, the page's own script. */
    size_t ends = 0;
    for (const char *at = buf_str(&page); (at = strstr(at, "</script>")) != NULL; at++)
        ends++;
    assert_int_equal(ends, 4);
    assert_null(strstr(buf_str(&page), "<img"));
    assert_null(strstr(buf_str(&page), "<b>"));
    assert_null(strstr(buf_str(&page), "<!--<"));
    assert_null(strstr(buf_str(&page), "\xe2\x80\xae"));
    assert_non_null(strstr(buf_str(&page), "default-src 'none'"));
    const char *data = strstr(buf_str(&page), "id=\"data\">") + strlen("id=\"data\">");
    char *copy = strndup(data, (size_t)(strstr(data, "</script>") - data));
    cJSON *doc = cJSON_Parse(copy);
    assert_non_null(doc);
    const char *class_name = cJSON_GetStringValue(
        cJSON_GetObjectItem(cJSON_GetObjectItem(doc, "verdict"), "class"));
    assert_non_null(strstr(class_name, "<img src=x"));
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(doc, "program_said")),
                        "</script><script>alert(1)</script>\n");
    cJSON_Delete(doc);
    free(copy);
    buf_release(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up_to_what_is_used),
        cmocka_unit_test(vram_of_an_apu_has_no_owner_by_kfd),
        cmocka_unit_test(each_rank_is_seen),
        cmocka_unit_test(what_nobody_sampled_is_a_gap),
        cmocka_unit_test(a_peak_is_not_thinned_away),
        cmocka_unit_test(no_table_gives_no_chart),
        cmocka_unit_test(a_drawing_has_its_parts_and_its_limit),
        cmocka_unit_test(a_terminal_gets_braille_or_letters),
        cmocka_unit_test(what_does_not_change_is_not_drawn),
        cmocka_unit_test(an_empty_cell_is_missing_wherever_it_stands),
        cmocka_unit_test(a_huge_list_costs_its_length),
        cmocka_unit_test(a_huge_line_of_names_costs_its_length),
        cmocka_unit_test(nothing_in_the_page_is_markup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
