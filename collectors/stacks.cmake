# SPDX-License-Identifier: Apache-2.0
list(APPEND COLLECTOR_SOURCES stack_text.c)
