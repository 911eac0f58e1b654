# SPDX-License-Identifier: Apache-2.0
list(APPEND COLLECTOR_LINK rc_watch)
