# cmake --install: library, header, command, pkg-config and find_package files.
include(CMakePackageConfigHelpers)
install(TARGETS quern RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS quern_static quern_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/quern DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
file(RELATIVE_PATH QUERN_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /) # relative, so that an installed tree may be moved
configure_file(${CMAKE_SOURCE_DIR}/cmake/quern.pc.in ${CMAKE_BINARY_DIR}/generated/quern.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/generated/quern.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/quern-config.cmake.in ${CMAKE_BINARY_DIR}/generated/quern-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quern)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/quern-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/quern-config.cmake ${CMAKE_BINARY_DIR}/generated/quern-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quern)
