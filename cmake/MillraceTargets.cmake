# The file's name says what it is; nothing is listed by hand:
#   x.cpp            library            x_test.cpp    unit test (one program per folder: <folder>_test)
#   x_avx2.cpp       library, AVX2      x_bench.cpp   microbenchmark (<folder>_bench)
#   x_avx512.cpp     library, AVX-512   x_fuzz.cpp    fuzz target, one program each (preset "fuzz")
#   x_avx512_vnni.cpp library, AVX-512 with VNNI
#   x_avx512_dot.cpp library, AVX-512 with VNNI and BF16
#   x_amx.cpp        library, the same with AMX
include(GoogleTest)

# prefetchw, which every processor with AVX2 has or ignores: lines that will be written come as this core's own.
set(MILLRACE_AVX2_FLAGS -mavx2 -mfma -mf16c -mprfchw)
# g++ 12 warns about its own _mm512_undefined_*() (GCC PR 105593).
set(MILLRACE_AVX512_FLAGS -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -mprfchw)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND MILLRACE_AVX512_FLAGS -Wno-uninitialized -Wno-maybe-uninitialized)
endif()
if(MILLRACE_SANITIZE MATCHES "address")
  # Some loops here are 30 KB of machine code; with every check g++ took 20 minutes for one file, beside others, which now takes
  # 4. Variables are registers, whose end needs no mark; what goes through null or a pointer that wrapped AddressSanitizer sees
  # too; vectors' loads need no alignment.
  set(sanitized -fno-sanitize=null,alignment,object-size,pointer-overflow -fno-sanitize-address-use-after-scope)
  list(APPEND MILLRACE_AVX2_FLAGS ${sanitized})
  list(APPEND MILLRACE_AVX512_FLAGS ${sanitized})
endif()
set(MILLRACE_AVX512_VNNI_FLAGS ${MILLRACE_AVX512_FLAGS} -mavx512vnni)
set(MILLRACE_AVX512_DOT_FLAGS ${MILLRACE_AVX512_VNNI_FLAGS} -mavx512bf16)
set(MILLRACE_AMX_FLAGS ${MILLRACE_AVX512_DOT_FLAGS} -mavx512fp16 -mavx512vbmi)

if(MILLRACE_FUZZ)
  add_custom_target(fuzzers)
endif()

# What most of the time of a file's compilation goes into, read once for all under a sanitizer. Not else: in a release build
# g++ 12 warns about what comes out of a precompiled header by chance (GCC PR 105651), clang-tidy and clangd refuse it, and
# headers that a file forgot to include would be missed.
set(MILLRACE_COMMON_HEADERS <algorithm> <chrono> <functional> <memory> <optional> <span> <string> <string_view> <thread>
    <variant> <vector> <boost/json.hpp> <fmt/format.h>)

# millrace_read_once(<target> <first> [<headers>]): the common headers and these, for all targets that name the same <first>,
# which is the first of them itself. They have the same flags.
function(millrace_read_once target first)
  if(NOT MILLRACE_SANITIZE)
    return()
  endif()
  if(target STREQUAL first)
    target_precompile_headers(${target} PRIVATE ${MILLRACE_COMMON_HEADERS} ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
endfunction()

# millrace_library(<folder> [PUBLIC <targets>] [PRIVATE <targets>]): the static library of src/<folder>, with its tests.
function(millrace_library name)
  cmake_parse_arguments(ARG "" "" "PUBLIC;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  set(tests ${sources})
  set(benches ${sources})
  set(fuzzers ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cpp$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cpp$")

  foreach(source IN LISTS sources)
    if(source MATCHES "_avx2\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${MILLRACE_AVX2_FLAGS}")
    elseif(source MATCHES "_avx512\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${MILLRACE_AVX512_FLAGS}")
    elseif(source MATCHES "_avx512_vnni\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${MILLRACE_AVX512_VNNI_FLAGS}")
    elseif(source MATCHES "_avx512_dot\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${MILLRACE_AVX512_DOT_FLAGS}")
    elseif(source MATCHES "_amx\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${MILLRACE_AMX_FLAGS}")
    endif()
  endforeach()

  if(sources)
    add_library(${name} STATIC ${sources})
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
    if(name IN_LIST MILLRACE_COMPUTING)
      target_compile_options(${name} PRIVATE ${MILLRACE_COMPUTING_FLAGS})
      # Most kernels have flags of their own, and few headers.
      if(NOT name MATCHES "^(kernels|emulated_amx)$")
        millrace_read_once(${name} tensor)
      endif()
    else()
      target_compile_options(${name} PRIVATE ${MILLRACE_OTHER_FLAGS})
      millrace_read_once(${name} base)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(${name} INTERFACE ${ARG_PUBLIC} ${ARG_PRIVATE})
  endif()

  if(tests)
    millrace_test(${name}_test SOURCES ${tests} LINK ${name})
  endif()
  if(benches AND NOT MILLRACE_SANITIZE)
    add_executable(${name}_bench ${benches})
    target_link_libraries(${name}_bench PRIVATE ${name} benchmark::benchmark_main)
  endif()
  if(MILLRACE_FUZZ)
    foreach(source IN LISTS fuzzers)
      get_filename_component(fuzzer ${source} NAME_WE)
      add_executable(${fuzzer} ${source})
      add_dependencies(fuzzers ${fuzzer})
      target_link_libraries(${fuzzer} PRIVATE ${name})
      target_link_options(${fuzzer} PRIVATE -fsanitize=fuzzer)
    endforeach()
  endif()
endfunction()

# millrace_test(<program> SOURCES <files> LINK <targets>): a GoogleTest program; each TEST becomes a ctest of its own.
function(millrace_test program)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${program} ${ARG_SOURCES})
  target_link_libraries(${program} PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest_main)
  target_compile_options(${program} PRIVATE ${MILLRACE_TEST_FLAGS})
  millrace_read_once(${program} base_test <gmock/gmock.h> <gtest/gtest.h>)
  # Only where it is used: what says the tree's place cannot come out of a cache that several trees share.
  foreach(source IN LISTS ARG_SOURCES)
    file(STRINGS ${source} uses REGEX "MILLRACE_SOURCE_DIR" LIMIT_COUNT 1)
    if(uses)
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS MILLRACE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    endif()
  endforeach()
  string(REGEX REPLACE "_test$" "" label ${program})
  # Tests of several values have names of their own for each.
  gtest_discover_tests(${program} DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES PROPERTIES TIMEOUT 600 LABELS ${label})
endfunction()

# millrace_run_alone(<test>): beside this test of a millrace_test() above ctest runs no other.
function(millrace_run_alone test)
  set(properties ${CMAKE_BINARY_DIR}/${test}_alone.cmake)  # read by ctest, after the tests of programs
  file(CONFIGURE OUTPUT ${properties} CONTENT "set_tests_properties(${test} PROPERTIES RUN_SERIAL ON)\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${properties})
endfunction()

# millrace_embed(<folder> <name>): src/<folder>/<name>/* become a part of the library of <folder>, which finds their bytes
# with `std::span<const EmbeddedFile> <folder>_<name>_files()`, which it declares. Made again when one of them changes.
function(millrace_embed folder name)
  set(from ${CMAKE_SOURCE_DIR}/src/${folder}/${name})
  file(GLOB files CONFIGURE_DEPENDS RELATIVE ${from} ${from}/*)
  list(TRANSFORM files PREPEND ${from}/ OUTPUT_VARIABLE paths)
  set(output ${CMAKE_BINARY_DIR}/embedded/${folder}_${name}.cpp)
  set(script ${CMAKE_SOURCE_DIR}/cmake/EmbedFiles.cmake)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DNAME=${folder}_${name} -DOUTPUT=${output} -DFOLDER=${from} "-DFILES=${files}" -P ${script}
    DEPENDS ${paths} ${script}
    COMMENT "Embedding src/${folder}/${name}"
    VERBATIM
  )
  target_sources(${folder} PRIVATE ${output})
endfunction()

# millrace_embed_compressed(<folder> <symbol> <file>): the file's bytes, compressed by gzip, become a part of the library of
# <folder>: `extern "C" const unsigned char <symbol>_begin[], <symbol>_end[];`. For what is too large for millrace_embed():
# the assembler takes it as it is, where a compiler would read it number by number.
function(millrace_embed_compressed folder symbol file)
  find_program(MILLRACE_GZIP gzip REQUIRED)
  set(compressed ${CMAKE_BINARY_DIR}/embedded/${symbol}.gz)
  set(output ${CMAKE_BINARY_DIR}/embedded/${symbol}.cpp)
  set(script ${CMAKE_SOURCE_DIR}/cmake/CompressFile.cmake)
  add_custom_command(
    OUTPUT ${compressed}
    COMMAND ${CMAKE_COMMAND} -DGZIP=${MILLRACE_GZIP} -DINPUT=${file} -DOUTPUT=${compressed} -P ${script}
    DEPENDS ${file} ${script}
    COMMENT "Compressing ${file}"
    VERBATIM
  )
  file(CONFIGURE OUTPUT ${output} CONTENT [[// Generated by millrace_embed_compressed().
asm(".pushsection .rodata\n"
    ".global @symbol@_begin, @symbol@_end\n"
    "@symbol@_begin: .incbin \"@compressed@\"\n"
    "@symbol@_end: .popsection\n");
]] @ONLY)
  set_source_files_properties(${output} PROPERTIES OBJECT_DEPENDS ${compressed})
  target_sources(${folder} PRIVATE ${output})
endfunction()

# The target header_check: every header compiled alone, so that none leans on what its user included before. Not those that
# a .cpp of their name includes before all else: there they are alone already.
function(millrace_header_check)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/src/*.h)
  # Not those that take a CUDA toolkit.
  list(FILTER headers EXCLUDE REGEX "^cuda/native/")
  set(sources)
  foreach(header IN LISTS headers)
    string(REGEX REPLACE "\\.h$" ".cpp" own ${CMAKE_SOURCE_DIR}/src/${header})
    if(EXISTS ${own})
      file(STRINGS ${own} first REGEX "^#include" LIMIT_COUNT 1)
      if(first STREQUAL "#include \"${header}\"")
        continue()
      endif()
    endif()
    set(source ${CMAKE_BINARY_DIR}/header_check/${header}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
    if(header MATCHES "_avx512\\.h$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${MILLRACE_AVX512_FLAGS}")
    elseif(header MATCHES "_avx512_dot\\.h$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${MILLRACE_AVX512_DOT_FLAGS}")
    elseif(header MATCHES "_amx\\.h$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${MILLRACE_AMX_FLAGS}")
    elseif(header MATCHES "_avx2\\.h$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${MILLRACE_AVX2_FLAGS}")
    endif()
    list(APPEND sources ${source})
  endforeach()
  add_library(header_check OBJECT EXCLUDE_FROM_ALL ${sources})
  target_compile_options(header_check PRIVATE -O0)
  target_link_libraries(header_check PRIVATE ${ARGN})
endfunction()
