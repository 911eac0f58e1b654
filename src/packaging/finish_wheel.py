# SPDX-License-Identifier: Apache-2.0
"""finish_wheel.py FOLDER RAW.whl OUTDIR: the platform tag, the licences of what is linked in, and a bill of
materials (CycloneDX) from the lock, into the wheel's dist-info."""

import glob
import hashlib
import io
import json
import os
import re
import sys
import uuid
import zipfile

import zopfli
from elftools.elf.elffile import ELFFile
from wheel.wheelfile import WheelFile

TAG = "manylinux_2_28_x86_64"
# name, version, licence, the archive that the lock names, its licence files in the sources
LINKED = (
    ("libarchive", "3.8.1", "BSD-2-Clause", "libarchive2-sys", ["libarchive2-sys/libarchive/COPYING"]),
    ("OpenSSL", "3.5.5", "Apache-2.0", "openssl-src", ["openssl-src/openssl/LICENSE.txt"]),
    ("PCRE2", "10.46", "BSD-3-Clause", "pcre2-sys", ["pcre2-sys/COPYING", "pcre2-sys/upstream/LICENCE.md"]),
    ("cJSON", "1.7.19", "MIT", "awscrt", ["cJSON.h"]),
    ("zlib", "1.3.2", "Zlib", "libz-sys", ["libz-sys/src/zlib/LICENSE", "libz-sys/src/zlib/zlib.h"]),
    ("elfutils", "0.191", "LGPL-3.0-or-later OR GPL-2.0-or-later", "libbpf-sys",
     ["libbpf-sys/elfutils/COPYING-LGPLV3", "libbpf-sys/elfutils/COPYING-GPLV2"]),
    ("xz", "5.8.4", "0BSD", "liblzma-sys", ["liblzma-sys/xz/COPYING", "liblzma-sys/xz/COPYING.0BSD"]),
    ("zstd", "1.5.7", "BSD-3-Clause", "zstd-sys", ["zstd-sys/zstd/LICENSE", "zstd-sys/LICENSE.BSD-3-Clause"]),
)


# The only symbols that the library in the target may import from libc (src/README.md).
LEDGER_IMPORTS = {"__environ", "__errno_location", "dl_iterate_phdr", "environ", "fileno", "getauxval"}


def check_ledger(data):
    symbols = ELFFile(io.BytesIO(data)).get_section_by_name(".dynsym").iter_symbols()
    strange = {symbol.name for symbol in symbols if symbol.name and symbol["st_shndx"] == "SHN_UNDEF"} - LEDGER_IMPORTS
    if strange:
        raise SystemExit(f"finish_wheel: the ledger's library imports {sorted(strange)}")


def check_init(name, data):
    """Nothing calls a program's .init section: zig links without crti.o. A constructor is in .init_array."""
    if data.startswith(b"\x7fELF") and ELFFile(io.BytesIO(data)).get_section_by_name(".init") is not None:
        raise SystemExit(f"finish_wheel: {name} has a section .init, which would never run")


def archives(here):
    """{name: (version, SHA-256, package URL)} of the two locks."""
    found = {}
    with open(os.path.join(here, "sources", "archives.sha256"), encoding="utf-8") as file:
        for digest, name, version in re.findall(r"^(\w{64})  (\S+) (\S+)$", file.read(), re.M):
            found[name] = (version, digest, f"pkg:cargo/{name}@{version}")
    with open(os.path.join(here, "sources", "requirements.txt"), encoding="utf-8") as file:
        for name, version, digest in re.findall(r"^([\w-]+)==(\S+) --hash=sha256:(\w+)", file.read(), re.M):
            found[name] = (version, digest, f"pkg:pypi/{name}@{version}")
    return found


def bill_of_materials(version, locked):
    components = []
    for name, own, licence, archive, _ in LINKED:
        _, digest, url = locked[archive]
        identifier = {"expression": licence} if " " in licence else {"license": {"id": licence}}
        components.append({"type": "library", "name": name, "version": own, "purl": url,
                           "licenses": [identifier], "hashes": [{"alg": "SHA-256", "content": digest}]})
    serial = uuid.UUID(hashlib.sha256(json.dumps(components).encode()).hexdigest()[:32])
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", "version": 1,
            "metadata": {"component": {"type": "application", "name": "rocmcrash", "version": version,
                                       "licenses": [{"license": {"id": "Apache-2.0"}}]}},
            "components": components}


def licence_text(sources, names):
    """The text of a licence. cJSON has it in the head of its header."""
    for name in names:
        paths = glob.glob(os.path.join(sources, name))
        if paths:
            with open(paths[0], encoding="utf-8", errors="replace") as file:
                text = file.read()
            return text[:text.index("*/") + 2] + "\n" if name.endswith(".h") else text
    raise SystemExit(f"finish_wheel: none of {names} is in {sources}")


def pack_tighter(name):
    """Writes the archive again with zopfli's deflate, which any unzip reads: 4 % less, for half a minute."""
    with zipfile.ZipFile(name) as old:
        items = [(item, old.read(item)) for item in old.infolist()]
    with zopfli.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as new:
        for item, data in items:
            packed = zopfli.ZipInfo(item.filename, item.date_time)
            packed.external_attr, packed.create_system = item.external_attr, item.create_system
            packed.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(packed, data)


def main():
    folder, raw, outdir = sys.argv[1:4]
    here = os.path.dirname(os.path.abspath(__file__))
    version = re.match(r"rocmcrash-([^-]+)-", os.path.basename(raw)).group(1)
    info = f"rocmcrash-{version}.dist-info"
    name = os.path.join(outdir, f"rocmcrash-{version}-py3-none-{TAG}.whl")
    with WheelFile(raw) as old, WheelFile(name, "w") as new:
        for item in sorted(old.infolist(), key=lambda item: item.filename):
            if item.filename == f"{info}/RECORD" or item.is_dir():
                continue
            data = old.read(item)
            if item.filename == f"{info}/WHEEL":
                data = re.sub(rb"(?m)^Tag: .*$", f"Tag: py3-none-{TAG}".encode(), data)
            if item.filename.endswith("librocmcrash-ledger.so"):
                check_ledger(data)
            check_init(item.filename, data)
            item.date_time = (2026, 1, 1, 0, 0, 0)
            item.compress_type, item._compresslevel = 8, 9
            new.writestr(item, data)
        for linked in LINKED:
            new.writestr(f"{info}/licenses/{linked[0]}.txt", licence_text(os.path.join(folder, "sources"), linked[4]))
        new.writestr(f"{info}/sboms/rocmcrash.cdx.json",
                     json.dumps(bill_of_materials(version, archives(here)), indent=1) + "\n")
    pack_tighter(name)


if __name__ == "__main__":
    main()
