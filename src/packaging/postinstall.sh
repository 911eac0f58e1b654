#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The folder is root's, so an ordinary user's Python would compile the hook at each start (10 ms). What one Python compiles
# serves all of its version, in virtual environments, too.
set -e
umask 022
for python in /usr/bin/python3.[0-9] /usr/bin/python3.[0-9][0-9]; do
    [ ! -x "$python" ] || "$python" -I -m compileall -f -qq "${DPKG_ROOT-}/usr/share/rocmcrash/python" || true
done
