#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What Python compiled of the hook is no file of the package.
set -e
rm -rf /usr/share/rocmcrash/python/__pycache__
