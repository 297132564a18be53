# Language level, warnings, sanitizers. One place, so that every target is built alike.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(MILLRACE_SANITIZE "" CACHE STRING "Sanitizers for every target: address,undefined or thread")

# For C++ only: nvcc takes other flags (MillraceCuda.cmake).
function(millrace_compile_options)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${ARGN}>")
endfunction()
millrace_compile_options(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
# Designated initialisers name what differs; the rest has its default on purpose.
millrace_compile_options(-Wno-missing-field-initializers)
# Sums must not depend on what a compiler chooses to contract: an fma is written where an fma is meant.
millrace_compile_options(-ffp-contract=off)

# How fast code runs, where that is not what a target is there for: tests compile in two thirds of the time of -O3. Under a
# sanitizer everything compiles without optimization (CMakePresets.json), in half the time, but for the folders that
# compute, whose tests would take minutes.
set(MILLRACE_TEST_FLAGS -O1)
set(MILLRACE_COMPUTING_FLAGS)
set(MILLRACE_OTHER_FLAGS)
set(MILLRACE_COMPUTING parallel kernels emulated_amx tensor model sampling quantization checkpoint text)
if(MILLRACE_SANITIZE)
  set(MILLRACE_COMPUTING_FLAGS -O1)
  if(MILLRACE_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # What does not compute compiles in three quarters of the time where AddressSanitizer checks by calls, and
    # UndefinedBehaviorSanitizer not for null, which the other sees, and not for alignment: nobody there reads bytes as numbers.
    # Kernels would take several times as long to run so.
    set(MILLRACE_OTHER_FLAGS -fno-sanitize=null,alignment --param=asan-instrumentation-with-call-threshold=0)
  endif()
  set(MILLRACE_TEST_FLAGS ${MILLRACE_OTHER_FLAGS})
endif()

if(MILLRACE_SANITIZE)
  millrace_compile_options(-fsanitize=${MILLRACE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MILLRACE_SANITIZE})
  # g++ 12 reports false positives inside instrumented standard containers.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    millrace_compile_options(-Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-array-bounds -Wno-restrict)
  endif()
endif()

find_program(MILLRACE_CCACHE ccache)
if(MILLRACE_CCACHE)
  # Paths relative to the tree, so that every checkout of it shares one cache; and as ccache wants it for precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${MILLRACE_CCACHE})
endif()
find_program(MILLRACE_MOLD mold)
if(MILLRACE_MOLD)
  # Segments begin on pages. Else mold 1.10 may put thread-local zeros alone at the end of a page that nothing else is on,
  # and the loader fails to protect it: "cannot apply additional memory protection after relocation".
  add_link_options(-fuse-ld=mold LINKER:-z,separate-code)
endif()

if(MILLRACE_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Asio has fences, which g++'s ThreadSanitizer does not follow; what threads share here is behind locks and atomics.
  # Nor does it see without optimization that CHECK(false) ends a function; elsewhere it does.
  millrace_compile_options(-Wno-tsan -Wno-return-type)
endif()
