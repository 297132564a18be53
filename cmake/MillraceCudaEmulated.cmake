# The CUDA backend on the processor, for tests: src/cuda/kernels/x.cu compiled as C++ and run by the emulator
# (src/cuda/emulated/threads.h). Needs no toolkit and is built always.
#   cuda_emulator            runs threads of a device; the runtime beside it is cuda_emulated_runtime
#   cuda_kernels_emulated    every kernel, and src/cuda/emulated/kernels: what wgmma does, by those
#   cuda_model_test        src/cuda/model/x_test.cpp: the model runner on them
#   cuda_kernels_test        src/cuda/kernels/x_cuda_test.cpp and the emulator's own tests
find_package(Boost 1.81 REQUIRED COMPONENTS context)

# What CUDA's own words mean in C++. A block runs alone, so what its threads share may be static.
set(MILLRACE_CUDA_WORDS "__global__=" "__device__=" "__host__=" "__shared__=static")

file(GLOB emulator_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cuda/emulated/threads.cpp
     ${CMAKE_SOURCE_DIR}/src/cuda/emulated/device/*.cpp)
add_library(cuda_emulator STATIC ${emulator_sources})
target_include_directories(cuda_emulator PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/src/cuda/emulated/device)
target_compile_definitions(cuda_emulator PUBLIC ${MILLRACE_CUDA_WORDS})
# CMake drops a definition with arguments.
target_compile_options(cuda_emulator PUBLIC "-D__launch_bounds__(...)=" PRIVATE ${MILLRACE_COMPUTING_FLAGS})
target_link_libraries(cuda_emulator PUBLIC base tensor cuda_emulated_runtime PRIVATE Boost::context)

# Each kernel is included by a C++ file of its name: a .cu cannot be C++ in one target and CUDA in another.
file(GLOB kernels CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/src/cuda/kernels/*.cu)
set(kernel_sources)
foreach(kernel IN LISTS kernels)
  get_filename_component(name ${kernel} NAME_WE)
  set(source ${CMAKE_BINARY_DIR}/cuda_emulated/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${kernel}\"\n")
  list(APPEND kernel_sources ${source})
endforeach()
file(GLOB wide_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cuda/emulated/kernels/*.cpp)
add_library(cuda_kernels_emulated STATIC ${kernel_sources} ${wide_sources})
target_link_libraries(cuda_kernels_emulated PUBLIC cuda_emulator)
target_compile_options(cuda_kernels_emulated PRIVATE ${MILLRACE_COMPUTING_FLAGS})
target_compile_options(cuda_kernels_emulated PUBLIC -Wno-unknown-pragmas)  # unroll; a test includes device code too

file(GLOB kernel_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cuda/kernels/*_cuda_test.cpp
     ${CMAKE_SOURCE_DIR}/src/cuda/emulated/threads*_test.cpp)
millrace_test(cuda_kernels_test SOURCES ${kernel_tests} LINK cuda_api cuda_kernels_emulated kernels)

add_executable(cuda_emulator_bench ${CMAKE_SOURCE_DIR}/src/cuda/emulated/threads_bench.cpp)
target_link_libraries(cuda_emulator_bench PRIVATE cuda_emulator benchmark::benchmark_main)

file(GLOB model_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cuda/model/*_test.cpp
     ${CMAKE_SOURCE_DIR}/src/cuda/emulated/*_model_test.cpp)
millrace_test(cuda_model_test SOURCES ${model_tests} LINK cuda_model cuda_kernels_emulated)
