# Every library the project stands on; the README says why each is here.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Boost REQUIRED COMPONENTS program_options)
find_package(MPI REQUIRED COMPONENTS C)
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(PkgConfig REQUIRED)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)

# mpi.h pulls the C++ bindings' symbols unless told not to (a shared library would then fail at dlopen).
add_library(trireme_mpi INTERFACE)
target_link_libraries(trireme_mpi INTERFACE MPI::MPI_C)
target_compile_definitions(trireme_mpi INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
