# SPDX-License-Identifier: Apache-2.0
list(APPEND COLLECTOR_SOURCES ledger_view.c ledger_find.c ledger_json.c)
list(APPEND COLLECTOR_LINK rc_telemetry PkgConfig::CJSON)
