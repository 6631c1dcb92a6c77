# Flags every target of the project is compiled with: link trireme_options.
add_library(trireme_options INTERFACE)
target_include_directories(trireme_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(trireme_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wnull-dereference -Werror
  -fno-math-errno  # errno after sqrt and exp is never read; value-changing math flags stay off
  -ffp-contract=off  # fused multiply-adds are written where they are meant, so that bits do not depend on the compiler's mood
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False reports of GCC 12 that come and go with inlining, fmt's parser and the length of a path; the sanitizers see the
  # true ones.
  target_compile_options(trireme_options INTERFACE -Wno-maybe-uninitialized -Wno-null-dereference -Wno-restrict
    -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
endif()
if(TRIREME_SANITIZE)
  target_compile_options(trireme_options INTERFACE -fsanitize=${TRIREME_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(trireme_options INTERFACE -fsanitize=${TRIREME_SANITIZE})
endif()
