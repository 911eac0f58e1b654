# SPDX-License-Identifier: Apache-2.0
list(APPEND COLLECTOR_SOURCES helper_program.c stack_text.c)
