#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sorts more lines than fit into the buffer: sort(1) needs a folder for temporary files, and TMPDIR names none.
awk 'BEGIN { for (i = 0; i < 60000; i++) print (i * 7919) % 60013, "a line of a log that is long enough" }' |
    sort -n -S 1M | tail -n 1 | grep -q '^6001'
