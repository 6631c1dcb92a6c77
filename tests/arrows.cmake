# Checks which folder includes which; run as: cmake -DROOT=<repository> -P arrows.cmake
# Fails with one line per violation: file:line, what was found, what is allowed.
# target_link_libraries has the same arrows, but a header can be included without linking.
cmake_minimum_required(VERSION 3.25)

set(folders runtime kernels dist offload model decode launch)
# The folders that each folder may include, transitively.
set(runtime_sees)
set(kernels_sees runtime)
set(dist_sees runtime)
set(offload_sees kernels runtime)
set(model_sees offload kernels dist runtime)
set(decode_sees model offload kernels dist runtime)
set(launch_sees decode model offload kernels dist runtime)
set(tests_sees tests launch decode model offload kernels dist runtime)

# Inside model/: bytes and stores, then tokenizers and checkpoints, then the model itself.
set(model_files_sees files)
set(model_tokenizer_sees files tokenizer)
set(model_checkpoint_sees files checkpoint)

# Inside launch/: commands, then what they write, then runs, then flags.
set(launch_flags_sees flags)
set(launch_run_sees run flags)
set(launch_report_sees report record run flags)
set(launch_record_sees report record run flags)
set(launch_commands_sees commands report record run flags)

set(intrinsics "^([a-z]+mmintrin|immintrin|x86intrin|x86gprintrin|arm_neon|arm_sve|cpuid)\\.h$")
set(violations)

# grep(<variable> <pattern>): every match in C++ and CUDA files as "file:line:match", paths relative to ROOT.
function(grep variable pattern)
  set(present)
  foreach(folder IN LISTS folders ITEMS tests)
    if(IS_DIRECTORY ${ROOT}/${folder})
      list(APPEND present ${folder})
    endif()
  endforeach()
  execute_process(
    COMMAND grep -rnoE --include=*.h --include=*.cc --include=*.cuh --include=*.cu -e ${pattern} ${present}
    WORKING_DIRECTORY ${ROOT} OUTPUT_VARIABLE output RESULT_VARIABLE status)
  if(status GREATER 1)  # 1 is "no match"
    message(FATAL_ERROR "arrows: grep failed with ${status} in ${ROOT}")
  endif()
  string(REGEX MATCHALL "[^\n]+" lines "${output}")
  set(${variable} "${lines}" PARENT_SCOPE)
endfunction()

grep(includes "^[[:space:]]*#[[:space:]]*include[[:space:]]*[\"<][^\">]+[\">]")
foreach(line IN LISTS includes)
  string(REGEX MATCH "^(([a-z]+)/[^:]*:[0-9]+):[^\"<]*([\"<])([^\">]+)" matched "${line}")
  set(where ${CMAKE_MATCH_1})
  set(folder ${CMAKE_MATCH_2})
  set(quote ${CMAKE_MATCH_3})
  set(header ${CMAKE_MATCH_4})
  string(REGEX REPLACE "/.*" "" target "${header}")
  string(REGEX REPLACE "^[a-z]+/([a-z]+)/.*" "\\1" part "${line}")
  if(target STREQUAL folder AND DEFINED ${folder}_${part}_sees)
    string(REGEX REPLACE "^[a-z]+/([a-z_]+).*" "\\1" seen "${header}")
    if(NOT seen IN_LIST ${folder}_${part}_sees)
      list(JOIN ${folder}_${part}_sees " " allowed)
      list(APPEND violations
           "${where}: ${folder}/${part}/ includes ${header}, but of ${folder}/ may see only: ${allowed}")
    endif()
  endif()
  if(target IN_LIST folders OR target STREQUAL "tests")
    if(NOT target STREQUAL folder AND NOT target IN_LIST ${folder}_sees)
      list(JOIN ${folder}_sees " " allowed)
      list(APPEND violations "${where}: ${folder}/ includes ${header}, but may see only: ${folder} ${allowed}")
    endif()
  elseif(quote STREQUAL "\"" AND NOT target STREQUAL "generated")
    list(APPEND violations "${where}: \"${header}\" is not a path from the root (a library is included with <>)")
  elseif(header MATCHES "${intrinsics}" AND NOT folder STREQUAL "kernels")
    list(APPEND violations "${where}: <${header}> outside kernels/")
  endif()
endforeach()

grep(launches "<<<")
foreach(line IN LISTS launches)
  if(NOT line MATCHES "^(runtime/cuda/launch\\.cuh|tests/gpu_smoke\\.cu):")  # the latter is a separate program
    string(REGEX REPLACE ":<<<$" "" where "${line}")
    list(APPEND violations "${where}: a kernel launch outside runtime/cuda/launch.cuh")
  endif()
endforeach()

if(violations)
  foreach(violation IN LISTS violations)
    message(NOTICE "${violation}")  # one line each; FATAL_ERROR would wrap them
  endforeach()
  list(LENGTH violations count)
  message(FATAL_ERROR "arrows: ${count} lines point the wrong way")
endif()
list(LENGTH includes count)
if(count EQUAL 0)
  message(FATAL_ERROR "arrows: no include found under ${ROOT}: wrong folder?")
endif()
message(STATUS "arrows: ${count} includes, all in the right direction")
