# Debian packages, by `cpack` in a build folder: trireme, and trireme-cuda where the CUDA module is built. They are for the
# release that they are built on, which their version names: dpkg-shlibdeps (package dpkg-dev) finds which of its
# packages the program needs. launch/package.sh makes them and the tarball.
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release release REGEX "^(ID|VERSION_ID)=")
endif()
if(NOT release MATCHES "(^|;)ID=debian(;|$)" OR NOT release MATCHES "VERSION_ID=\"([0-9]+)\"")
  return()
endif()
set(number ${CMAKE_MATCH_1})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME trireme)
set(CPACK_PACKAGE_CONTACT "Trireme maintainers <maintainers@trireme.example>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE "1~deb${number}")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_COMPONENTS_ALL trireme)
set(CPACK_DEBIAN_TRIREME_PACKAGE_NAME trireme)
set(CPACK_DEBIAN_TRIREME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_TRIREME_PACKAGE_RECOMMENDS "openmpi-bin, bash-completion")
set(CPACK_DEBIAN_TRIREME_PACKAGE_SUGGESTS "trireme-cuda, python3-h5py, python3-matplotlib")
set(CPACK_COMPONENT_TRIREME_DESCRIPTION "exact decoding of Llama models with long contexts
Decodes one request whose keys and values are larger than a device's memory:
layers that do not fit are streamed through it, or tokens are proposed by
something cheaper and checked by the model. Ranks, which mpirun or Slurm
starts, share every layer. On CPUs; trireme-cuda has what it needs for GPUs.")

if(TRIREME_CUDA_MODULE)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_NAME trireme-cuda)
  # cuBLASLt and NCCL come from NVIDIA's repository, from a toolkit or from Python's packages; Debian 12 has no CUDA 13.
  # The module is opened, not linked: runtime/module.h says where it looks for them.
  set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "trireme (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
  set(CPACK_DEBIAN_CUDA_PACKAGE_SUGGESTS "libcublas-13-0, libnccl2")
  set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION contrib/science)
  set(CPACK_COMPONENT_CUDA_DESCRIPTION "exact decoding of Llama models with long contexts: the GPU half
What trireme opens when a card is asked for (--device cuda). It needs NVIDIA's
driver 580 or later and cuBLASLt 13, and NCCL 2 for several cards, which
Debian does not have: from NVIDIA's repository, the CUDA 13 toolkit, or pip.")
endif()
include(CPack)
