#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Python's compiled copies of the hook are not files of the package, so they are removed here.
set -e
rm -rf /usr/share/rocmcrash/python/__pycache__
