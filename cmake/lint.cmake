# cmake --build <dir> -t format | tidy
find_program(CLANG_FORMAT NAMES clang-format-14 clang-format)
find_program(CLANG_TIDY NAMES clang-tidy-14 clang-tidy)
find_program(RUN_CLANG_TIDY NAMES run-clang-tidy-14 run-clang-tidy)
set(folders runtime kernels dist offload model decode launch tests)
list(TRANSFORM folders APPEND "/*.h" OUTPUT_VARIABLE headers)
list(TRANSFORM folders APPEND "/*.cc" OUTPUT_VARIABLE sources)
file(GLOB_RECURSE lint_files RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${headers} ${sources})
if(CLANG_FORMAT)
  add_custom_target(format COMMAND ${CLANG_FORMAT} -i ${lint_files} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  add_custom_target(format-check COMMAND ${CLANG_FORMAT} --dry-run -Werror ${lint_files}
                    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endif()
if(CLANG_TIDY AND RUN_CLANG_TIDY)
  # On GCC's compile commands: clang must not mind flags that only GCC has, and cannot read GCC's precompiled headers.
  set(tidy ${PROJECT_BINARY_DIR}/tidy)
  add_custom_target(tidy
    COMMAND ${CMAKE_COMMAND} -S ${PROJECT_SOURCE_DIR} -B ${tidy} -G Ninja -DCMAKE_BUILD_TYPE=Release -DTRIREME_TESTS=OFF
            -DTRIREME_CUDA=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
    COMMAND ${CMAKE_COMMAND} --build ${tidy} --target trireme_commit
    COMMAND ${RUN_CLANG_TIDY} -quiet -clang-tidy-binary ${CLANG_TIDY} -p ${tidy} -extra-arg=-Wno-unknown-warning-option
            "^${PROJECT_SOURCE_DIR}/(runtime|kernels|dist|offload|model|decode|launch)/"
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
endif()
