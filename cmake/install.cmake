# A tree that can be moved: program and libraries find each other by where they lie. The libraries are the program's own
# and have no version: a folder of their own keeps them apart from the system's.
set_target_properties(trireme PROPERTIES INSTALL_RPATH "$ORIGIN/../${TRIREME_LIBDIR}")
install(TARGETS trireme RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY configs/ DESTINATION share/trireme/configs)
install(DIRECTORY launch/slurm DESTINATION share/trireme)
install(FILES README.md DESTINATION share/doc/trireme)
install(DIRECTORY docs DESTINATION share/doc/trireme)
install(FILES LICENSE DESTINATION share/doc/trireme RENAME copyright)
if(TRIREME_SANITIZE OR TRIREME_FUZZ)
  return()
endif()

# The manual page and bash's completion, which the program itself makes from its table of flags.
set(made ${PROJECT_BINARY_DIR}/generated)
add_custom_command(OUTPUT ${made}/trireme.1.gz ${made}/trireme.bash
  COMMAND sh -c [["$1" --man >"$2/trireme.1" && gzip -9nf "$2/trireme.1" && "$1" --completion bash >"$2/trireme.bash"]]
          sh $<TARGET_FILE:trireme> ${made}
  DEPENDS trireme VERBATIM)
# All that is installed, without the tests.
add_custom_target(trireme_program ALL DEPENDS ${made}/trireme.1.gz ${made}/trireme.bash)
if(TRIREME_CUDA_MODULE)
  add_dependencies(trireme_program trireme_cuda)
endif()
install(FILES ${made}/trireme.1.gz DESTINATION share/man/man1)
install(FILES ${made}/trireme.bash DESTINATION share/bash-completion/completions RENAME trireme)
