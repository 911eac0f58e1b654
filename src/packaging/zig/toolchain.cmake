# SPDX-License-Identifier: Apache-2.0
# CMake's side of zig-cc (src/packaging/environment puts it on the path).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER zig-cc)
set(CMAKE_AR zig-ar CACHE FILEPATH "")
set(CMAKE_RANLIB zig-ranlib CACHE FILEPATH "")
# zig makes no position-independent programs unless told.
set(CMAKE_C_FLAGS_INIT "-ffunction-sections -fdata-sections")
# -O2 is -O3 to zig. Nobody unwinds our stacks but those in the target (src/inject).
set(CMAKE_C_FLAGS_RELEASE "-Os -DNDEBUG -fno-asynchronous-unwind-tables -fno-unwind-tables" CACHE STRING "")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-pie -s -Wl,--gc-sections -Wl,-z,relro,-z,now")
set(CMAKE_MODULE_LINKER_FLAGS_INIT "-s")
