# Flags every target of the project is compiled with: link trireme_options.
add_library(trireme_options INTERFACE)
target_include_directories(trireme_options INTERFACE ${PROJECT_SOURCE_DIR})
# nvcc has flags of its own (cmake/cuda.cmake).
set(flags
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wnull-dereference -Werror
  -fno-math-errno  # errno after sqrt and exp is never read; value-changing math flags stay off
  -ffp-contract=off  # fused multiply-adds are written where they are meant, so that bits do not depend on the compiler's mood
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False reports of GCC 12 that come and go with inlining, fmt's parser and the length of a path; the sanitizers see the
  # true ones.
  list(APPEND flags -Wno-maybe-uninitialized -Wno-null-dereference -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow
                    -Wno-stringop-overread)
endif()
target_compile_options(trireme_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
if(TRIREME_SANITIZE)
  target_compile_options(trireme_options INTERFACE -fsanitize=${TRIREME_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  if(TRIREME_SANITIZE MATCHES undefined AND NOT TRIREME_FUZZ)  # ASan finds what these find; they are a sixth of the compile time
    target_compile_options(trireme_options INTERFACE -fno-sanitize=null,object-size,vptr)
  endif()
  target_link_options(trireme_options INTERFACE -fsanitize=${TRIREME_SANITIZE})
endif()

include(GNUInstallDirs)
set(TRIREME_LIBDIR ${CMAKE_INSTALL_LIBDIR}/trireme)
# trireme_shared(<target>): linked by the program and by the modules it opens, which must see the same registries.
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
function(trireme_shared target)
  set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "" INSTALL_RPATH "$ORIGIN")
  if(NOT TRIREME_SANITIZE)  # clang's sanitizers are in the program, not in the library
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  install(TARGETS ${target} LIBRARY DESTINATION ${TRIREME_LIBDIR})
endfunction()

# trireme_apart(<source>...): sources that a unity build compiles by themselves, because names in their anonymous namespaces would
# clash, or are members of a class that another file declares.
function(trireme_apart)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
