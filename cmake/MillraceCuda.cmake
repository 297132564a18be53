# The CUDA backend (docs/decisions/0016): built where there is a toolkit, left out where there is none. A device is never needed
# to build; the driver, cuBLASLt and NCCL are looked for when the program runs.
set(MILLRACE_CUDA AUTO CACHE STRING "CUDA backend: AUTO (where nvcc is found), ON or OFF")
set_property(CACHE MILLRACE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(MILLRACE_CUDA_ARCHITECTURES 90a CACHE STRING "What kernels are compiled for: 90a is an H100 or H200; a list: 80;90a")

# Sets ${variable} to nvcc's path: the one on PATH (or CMAKE_CUDA_COMPILER), else that of `./dev setup --cuda`; or leaves it unset.
function(millrace_find_nvcc variable)
  if(CMAKE_CUDA_COMPILER)
    set(${variable} ${CMAKE_CUDA_COMPILER} PARENT_SCOPE)
    return()
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tools/fetch_packages.py --where cuda
    OUTPUT_VARIABLE fetched OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY
  )
  # Not cached: a toolkit that comes or goes is seen by the next configuration.
  find_program(nvcc nvcc PATHS ${fetched}/bin NO_CACHE)
  if(nvcc)
    set(${variable} ${nvcc} PARENT_SCOPE)
  endif()
endfunction()

# Not CMAKE_CUDA_COMPILER, which a build folder keeps when MILLRACE_CUDA is turned off in it.
set(MILLRACE_HAS_CUDA OFF)
if(MILLRACE_CUDA)  # AUTO is true as well
  millrace_find_nvcc(nvcc)
  if(nvcc)
    set(CMAKE_CUDA_COMPILER ${nvcc})
    # -real: machine code alone. Its PTX would run nowhere else: what has an `a` is for one architecture.
    list(TRANSFORM MILLRACE_CUDA_ARCHITECTURES APPEND -real OUTPUT_VARIABLE CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
    enable_language(CUDA)
    set(MILLRACE_HAS_CUDA ON)
    # CMake 3.25 does not know that nvcc speaks C++20, and the tree's standard holds for CUDA too.
    foreach(dialect IN ITEMS STANDARD EXTENSION)
      if(NOT CMAKE_CUDA20_${dialect}_COMPILE_OPTION)
        set(CMAKE_CUDA20_${dialect}_COMPILE_OPTION -std=c++20)
      endif()
    endforeach()
    message(STATUS "CUDA backend: ${nvcc} ${CMAKE_CUDA_COMPILER_VERSION}, for sm_${MILLRACE_CUDA_ARCHITECTURES}")
  elseif(MILLRACE_CUDA STREQUAL "AUTO")
    message(STATUS "CUDA backend: none, there is no nvcc on PATH (./dev setup --cuda brings one)")
  else()
    message(FATAL_ERROR "MILLRACE_CUDA is ON, and there is no nvcc: put one on PATH, or run ./dev setup --cuda")
  endif()
else()
  message(STATUS "CUDA backend: none, MILLRACE_CUDA is OFF")
endif()

# What nvcc's own code generation warns about is an error, as is what g++ says of the host's half. Not -Wpedantic: nvcc's output has
# GNU's line directives. -fmad=false is -ffp-contract=off: an fma is written where one is meant.
set(MILLRACE_NVCC_FLAGS -Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Wconversion,-Wshadow,-Werror --expt-relaxed-constexpr -fmad=false)

# Sources of one folder, without its tests: millrace_cuda_sources(<variable> <pattern>...)
function(millrace_cuda_sources variable)
  list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/src/cuda/)
  file(GLOB sources CONFIGURE_DEPENDS ${ARGN})
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cpp$")
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# millrace_cuda_part(<target> LINK <targets> SOURCES <files>): a static library of some of src/cuda.
function(millrace_cuda_part target)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${target} STATIC ${ARG_SOURCES})
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${target} PUBLIC ${ARG_LINK})
endfunction()

# millrace_cuda_library(<folder> PUBLIC <targets>): src/<folder> as one library whose lower half, the runtime, is chosen here:
#   cuda_api               all above the runtime: the same in every build
#   cuda_model             the model runner, of operators and runtime: no CUDA in it
#   cuda_native            the runtime and the kernels on a device, where there is a toolkit
#   cuda_absent            one clear error, where there is none
#   cuda_emulated_runtime  the runtime on the processor, for tests, always
# A runtime uses nothing of cuda_api, so that a linker reads them once, in this order.
#   <folder>               cuda_api with cuda_native or cuda_absent: what programs link
function(millrace_cuda_library name)
  cmake_parse_arguments(ARG "" "" "PUBLIC" ${ARGN})
  millrace_cuda_sources(api *.cpp)
  millrace_cuda_part(cuda_api SOURCES ${api} LINK ${ARG_PUBLIC})
  millrace_cuda_sources(model model/*.cpp)
  millrace_cuda_part(cuda_model SOURCES ${model} LINK cuda_api ${ARG_PUBLIC})
  millrace_cuda_sources(absent absent/*.cpp)
  millrace_cuda_part(cuda_absent SOURCES ${absent} LINK base tensor kernels checkpoint model)
  millrace_cuda_sources(emulated emulated/*.cpp)
  list(FILTER emulated EXCLUDE REGEX "/threads[^/]*\\.cpp$")  # MillraceCudaEmulated.cmake
  millrace_cuda_part(cuda_emulated_runtime SOURCES ${emulated} LINK base tensor)

  add_library(${name} INTERFACE)
  if(MILLRACE_HAS_CUDA)
    millrace_cuda_native()
    target_link_libraries(${name} INTERFACE cuda_api cuda_model cuda_native)
  else()
    target_link_libraries(${name} INTERFACE cuda_api cuda_absent)
  endif()
  millrace_cuda_tests()
endfunction()

function(millrace_cuda_native)
  millrace_cuda_sources(sources native/*.cpp native/*.cu kernels/*.cu)
  # Comparisons with headers that need not be there.
  foreach(library IN ITEMS cublasLt nccl)
    find_file(header ${library}.h HINTS ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} NO_CACHE)
    if(NOT header)
      string(TOLOWER ${library} name)
      list(FILTER sources EXCLUDE REGEX "/${name}_api_check\\.cpp$")
    endif()
    unset(header)
  endforeach()
  millrace_cuda_part(cuda_native SOURCES ${sources} LINK base tensor)
  target_include_directories(cuda_native PRIVATE ${CMAKE_SOURCE_DIR}/src/cuda/native/device)
  target_include_directories(cuda_native SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  target_link_libraries(cuda_native PRIVATE ${CMAKE_DL_LIBS})
  target_compile_options(cuda_native PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${MILLRACE_NVCC_FLAGS}>")
  string(REPLACE ";" " and sm_" architectures "sm_${MILLRACE_CUDA_ARCHITECTURES}")
  target_compile_definitions(cuda_native PRIVATE MILLRACE_CUDA_ARCHITECTURES="${architectures}")
endfunction()

# The tests beside the sources run in emulation. Built against a device too, as cuda_native_test, which `./dev gpu-check` runs.
function(millrace_cuda_tests)
  set(folder ${CMAKE_SOURCE_DIR}/src/cuda)
  file(GLOB anywhere CONFIGURE_DEPENDS ${folder}/*_test.cpp)
  file(GLOB emulated CONFIGURE_DEPENDS ${folder}/emulated/*_test.cpp)
  list(FILTER emulated EXCLUDE REGEX "/(threads[^/]*|[^/]*_model)_test\\.cpp$")
  file(GLOB absent CONFIGURE_DEPENDS ${folder}/absent/*_test.cpp)
  millrace_test(cuda_test SOURCES ${anywhere} ${emulated} LINK cuda_api cuda_emulated_runtime)
  millrace_test(cuda_absent_test SOURCES ${absent} LINK cuda_api cuda_absent)
  if(MILLRACE_HAS_CUDA)
    file(GLOB native CONFIGURE_DEPENDS ${folder}/native/*_test.cpp ${folder}/kernels/*_cuda_test.cpp ${folder}/model/*_test.cpp)
    add_executable(cuda_native_test ${anywhere} ${native})
    target_link_libraries(cuda_native_test PRIVATE cuda_model cuda_api cuda_native kernels GTest::gmock GTest::gtest_main)
  endif()
endfunction()
