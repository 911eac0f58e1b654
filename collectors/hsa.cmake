# SPDX-License-Identifier: Apache-2.0
# The one file of the probe that is pure: its JSON as rocminfo lays it out.
list(APPEND COLLECTOR_SOURCES ${PROJECT_SOURCE_DIR}/src/probe/rocminfo.c)
list(APPEND COLLECTOR_LINK PkgConfig::CJSON)
