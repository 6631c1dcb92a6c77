// Nothing: what is compiled is the list of headers that other targets reuse (headers.cmake, tests/CMakeLists.txt).
