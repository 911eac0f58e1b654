# SPDX-License-Identifier: Apache-2.0
"""rocmcrash for Spack, built from a checkout:

    spack repo add samples/spack/spack_repo/rocmcrash
    spack dev-build -d . rocmcrash@=0.2.0
"""

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator

from spack.package import Executable, conflicts, depends_on, license, on_package_attributes, run_after, variant, version


class Rocmcrash(CMakePackage):
    """Runs a ROCm GPU program unnoticed and, when it dies, leaves one archive that says what kind of failure it
    was and which number says so."""

    license("Apache-2.0")

    # A release adds its archive and checksum here.
    version("0.2.0")

    variant("hsa", default=True, description="Ask the HSA runtime for its pools (the library is found when it runs)")

    depends_on("c", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.9:", type="build")
    depends_on("libarchive compression=zlib", type="link")
    depends_on("openssl@3:", type="link")
    depends_on("cjson", type="link")
    depends_on("pcre2+jit", type="link")
    depends_on("zlib-api", type="link")
    depends_on("elfutils", type="link")
    depends_on("libdrm")
    depends_on("hsa-rocr-dev", when="+hsa")

    conflicts("platform=darwin")
    conflicts("target=aarch64:", msg="reads the registers of x86-64")

    generator("ninja")

    def cmake_args(self):
        return [self.define("ROCMCRASH_TESTS", False)]

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def run_it(self):
        """A command that ends well leaves nothing."""
        Executable(self.prefix.bin.rocmcrash)("--", "true")
