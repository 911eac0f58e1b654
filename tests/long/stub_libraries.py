# SPDX-License-Identifier: Apache-2.0
"""Empty libraries in the place of those that a wheel links to and the distribution lacks (tracing, RCCL, SMI, solvers):
every function that the wheel wants of them is there and returns an error. Enough to load it and to use one GPU."""
import glob
import os
import re
import subprocess

# Libraries without symbol versions, with the prefixes of their functions.
PREFIXES = {"librccl": ("nccl", "pnccl"), "librocprofiler-sdk": ("rocprofiler",), "libroctracer64": ("roctracer", "roctx"),
            "libamd_smi": ("amdsmi",), "librocm_smi64": ("rsmi",), "libhipsolver": ("hipsolver", "hipsolverRf"),
            "librocm_sysdeps_numa": ("numa",), "librocm_sysdeps_drm_amdgpu": ("amdgpu",), "librocm_sysdeps_drm": ("drm",)}
# Other names that the distribution has the library by.
ALIASES = {"librocm_smi64.so.1": "librocm_smi64.so"}


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout


def needed(library):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", library))


def installed():
    return {line.split()[0] for line in output("ldconfig", "-p").splitlines()[1:] if line.strip()}


def versions_of(library, soname):
    """The names of versions that `library` wants of `soname`."""
    found, file = [], ""
    for line in output("readelf", "-V", "-W", library).splitlines():
        match = re.search(r"File: (\S+)", line)
        file = match.group(1) if match else file
        match = re.search(r"Name: (\S+)\s+Flags", line)
        if match and file == soname:
            found.append(match.group(1))
    return found


def undefined(library):
    """(name, version or "")"""
    for line in output("nm", "-D", "--undefined-only", library).splitlines():
        name, _, version = line.split()[-1].partition("@")
        yield name, version.lstrip("@")


def symbols_for(soname, libraries):
    """{version: names}"""
    stem = soname.split(".so")[0]
    wanted = {}
    for library in libraries:
        versions = versions_of(library, soname)
        for name, version in undefined(library):
            if version in versions if version else name.startswith(PREFIXES.get(stem, ())):
                wanted.setdefault(version, set()).add(name)
    return wanted


def make_stub(soname, wanted, folder):
    names = sorted(set().union(*wanted.values())) if wanted else []
    source = os.path.join(folder, "stub.c")
    with open(source, "w", encoding="ascii") as file:
        file.write("int rocmcrash_stub;\n" + "".join(f"int {name}(void) {{ return 1; }}\n" for name in names))
    command = ["gcc", "-w", "-shared", "-fPIC", source, "-o", os.path.join(folder, soname), f"-Wl,-soname,{soname}"]
    versions = sorted(version for version in wanted if version)
    if versions:
        script = os.path.join(folder, "stub.map")
        with open(script, "w", encoding="ascii") as file:
            for before, version in zip([""] + versions, versions):
                file.write(f"{version} {{ global: {' '.join(n + ';' for n in sorted(wanted[version]))} }} {before};\n")
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, check=True)


def make_stubs(wheels, folder):
    """For all libraries below `wheels`; the sonames that were made."""
    os.makedirs(folder, exist_ok=True)
    libraries = [p for p in glob.glob(wheels + "/**/*.so*", recursive=True) if os.path.isfile(p)]
    beside = {os.path.basename(p) for p in libraries}
    missing = {}
    there = installed()
    for library in libraries:
        for soname in needed(library):
            if soname not in there and soname not in beside and soname.split(".so")[0] in PREFIXES:
                missing.setdefault(soname, []).append(library)
    for soname, users in missing.items():
        real = next((p for p in glob.glob(f"/usr/lib/*/{ALIASES.get(soname, '-')}*")), None)
        if real is not None:
            os.symlink(real, os.path.join(folder, soname))
        else:
            make_stub(soname, symbols_for(soname, users), folder)
    return sorted(missing)


if __name__ == "__main__":
    import sys
    print(make_stubs(sys.argv[1], sys.argv[2]))
