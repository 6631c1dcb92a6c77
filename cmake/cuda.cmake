# The CUDA module: what nvcc and the CUDA headers compile, opened by the program when a card is asked for. Nothing else
# in the house sees CUDA. TRIREME_CUDA says whether it is built; where it is not, its tests are not there either.
set(TRIREME_CUDA AUTO CACHE STRING "AUTO: build the CUDA module where nvcc is; REQUIRED: or stop; OFF: never")
set(TRIREME_CUDA_MODULE OFF)
if(TRIREME_CUDA STREQUAL "OFF" OR TRIREME_SANITIZE OR TRIREME_FUZZ)
  return()
endif()
# trireme_no_cuda(<what is missing> <what to do>): leaves this file, or stops.
macro(trireme_no_cuda what todo)
  if(TRIREME_CUDA STREQUAL "REQUIRED")
    message(FATAL_ERROR "TRIREME_CUDA=REQUIRED: no ${what}; ${todo}, or use the preset release")
  endif()
  message(STATUS "No ${what}: the CUDA module is not built")
  return()
endmacro()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  trireme_no_cuda(nvcc "install CUDA 13 and put nvcc on PATH")
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  # A100, RTX 30 (runs sm_80's code), RTX 40 and L40, H100; PTX for what came later.
  set(CMAKE_CUDA_ARCHITECTURES 80-real 89-real 90-real 90-virtual)
endif()
enable_language(CUDA)
# CMake 3.25 does not know nvcc's C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
find_package(CUDAToolkit REQUIRED)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(NOT NCCL_INCLUDE_DIR)
  trireme_no_cuda(nccl.h "install NCCL's headers (libnccl-dev)")
endif()
set(TRIREME_CUDA_MODULE ON)

# trireme_cuda_part(<folder> <source>...): what a folder gives to the module.
function(trireme_cuda_part folder)
  set(target trireme_${folder}_cuda)
  add_library(${target} OBJECT ${ARGN})
  target_link_libraries(${target} PUBLIC trireme_${folder})
  target_include_directories(${target} SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS} ${NCCL_INCLUDE_DIR})
  set_target_properties(${target} PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON
    CUDA_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/ptxas_log.sh)
  # Fused multiply-adds are written where they are meant, as on the CPU.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false --expt-relaxed-constexpr -Werror all-warnings -Xptxas=-v -Xcompiler=-Wall,-Wextra>)
endfunction()
