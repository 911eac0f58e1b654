# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT with the commit of SOURCE, only when it has changed; "no commit known" outside git.
find_program(GIT git)
set(commit "no commit known")
if(DEFINED ENV{ROCMCRASH_COMMIT}) # src/packaging/wheel builds a copy, which no git knows
  set(commit "commit $ENV{ROCMCRASH_COMMIT}")
elseif(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE said ERROR_QUIET RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed)
    set(commit "commit ${said}")
  endif()
endif()
set(text "#define ROCMCRASH_COMMIT \"${commit}\"\n")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
