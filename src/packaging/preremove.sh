#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Python's compiled copies of the hook are not files of the package, so they are removed here. Not when rpm replaces the
# package ("1"): the new one has compiled its own by then.
set -e
[ "${1-}" = 1 ] || rm -rf "${DPKG_ROOT-}/usr/share/rocmcrash/python/__pycache__"
