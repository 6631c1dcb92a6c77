# ccache, where it is installed: a build folder that is made anew compiles only what has changed. -DTRIREME_CCACHE=OFF
# measures a build without it.
option(TRIREME_CCACHE "Compile through ccache where it is installed" ON)
find_program(CCACHE ccache)
if(NOT TRIREME_CCACHE OR NOT CCACHE OR CMAKE_CXX_COMPILER_LAUNCHER)
  return()
endif()
message(STATUS "Compiling through ${CCACHE}")
# Paths below the source folder are made relative, so that clones share results. The sloppiness is what ccache's manual
# asks for with precompiled headers; none of our files prints the time of its compilation.
set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()
