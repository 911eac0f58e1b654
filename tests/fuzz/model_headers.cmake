# SPDX-License-Identifier: Apache-2.0
# Headers of model files; included by tests/unit/models. With ROCMCRASH_FUZZ (clang) libFuzzer drives
# the parsers, compiled into the target so that it sees their coverage; always, the corpus is
# replayed, every cut of every file, as an ordinary test.
set(model_lib ${CMAKE_CURRENT_LIST_DIR}/../../collectors/lib)
foreach(format gguf safetensors)
  if(ROCMCRASH_FUZZ)
    add_executable(fuzz_${format} ${CMAKE_CURRENT_LIST_DIR}/fuzz_${format}.c
      ${model_lib}/byte_reader.c ${model_lib}/cleantext.c ${model_lib}/weights.c
      ${model_lib}/gguf.c ${model_lib}/safetensors.c)
    target_compile_options(fuzz_${format} PRIVATE -fsanitize=fuzzer,address,undefined,float-cast-overflow
      -fno-sanitize-recover=undefined,float-cast-overflow)
    target_link_options(fuzz_${format} PRIVATE -fsanitize=fuzzer,address,undefined,float-cast-overflow
      -fno-sanitize-recover=undefined,float-cast-overflow)
    target_link_libraries(fuzz_${format} PRIVATE rc_base PkgConfig::CJSON)
  endif()
  add_executable(replay_${format} ${CMAKE_CURRENT_LIST_DIR}/fuzz_${format}.c
    ${CMAKE_CURRENT_LIST_DIR}/replay_model.c)
  target_link_libraries(replay_${format} PRIVATE rc_collector_lib)
  add_test(NAME unit.replay_${format}
    COMMAND replay_${format} ${CMAKE_CURRENT_LIST_DIR}/corpus/${format})
  set_tests_properties(unit.replay_${format} PROPERTIES LABELS "unit;fuzz" TIMEOUT 60)
endforeach()
