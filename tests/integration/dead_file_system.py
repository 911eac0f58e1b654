# SPDX-License-Identifier: Apache-2.0
"""A folder on a file system that never answers, like a home on a server that is gone: FUSE without a server that reads
its requests. It is mounted for one command, in a mount namespace of its own.

usage: dead_file_system.py FOLDER COMMAND...      (in `unshare --mount`; as an ordinary user `unshare -r --mount`)
"""

import ctypes
import os
import subprocess
import sys


def mount(folder):
    device = os.open("/dev/fuse", os.O_RDWR)  # closed when this process ends; then all requests fail
    options = f"fd={device},rootmode=40000,user_id={os.geteuid()},group_id={os.getegid()}"
    if ctypes.CDLL(None, use_errno=True).mount(b"dead", folder.encode(), b"fuse", 0, options.encode()) != 0:
        sys.exit("mount: " + os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    mount(sys.argv[1])
    status = subprocess.run(sys.argv[2:], check=False).returncode
    sys.exit(status if status >= 0 else 128 - status)
