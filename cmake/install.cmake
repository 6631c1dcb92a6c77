# A tree that can be moved: bin/ and lib/ side by side, found relative to the program.
set_target_properties(trireme PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
install(TARGETS trireme RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY configs/ DESTINATION share/trireme/configs)
install(FILES README.md LICENSE DESTINATION share/trireme)
