# The commit goes into --version and every report. Taken at build time by a script, so that it is never stale.
add_custom_target(trireme_commit ALL
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
          -DOUT=${PROJECT_BINARY_DIR}/generated/commit.h -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake
  BYPRODUCTS ${PROJECT_BINARY_DIR}/generated/commit.h)
