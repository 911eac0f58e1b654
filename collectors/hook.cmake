# SPDX-License-Identifier: Apache-2.0
if(NOT TARGET rc_collector_lib)
  add_subdirectory(lib)
endif()
list(APPEND COLLECTOR_SOURCES hook_text.c hook_facts.c hook_gap.c hook_pools.c hook_onnx.c)
list(APPEND COLLECTOR_LINK rc_collector_lib rc_series PkgConfig::CJSON)
