# What find_package(hvd) and pkg-config need of an installed libhvd.
include(CMakePackageConfigHelpers)

set(HVD_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/hvd)
install(TARGETS hvd EXPORT hvdTargets)
install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/include/hvd DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT hvdTargets NAMESPACE hvd:: DESTINATION ${HVD_CMAKE_DIR})

configure_package_config_file(${CMAKE_CURRENT_SOURCE_DIR}/cmake/hvdConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/hvdConfig.cmake INSTALL_DESTINATION ${HVD_CMAKE_DIR})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/hvdConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/hvdConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/hvdConfigVersion.cmake DESTINATION ${HVD_CMAKE_DIR})

# Relative to itself, so that it is right wherever the tree is put.
file(RELATIVE_PATH HVD_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_SOURCE_DIR}/cmake/hvd.pc.in ${CMAKE_CURRENT_BINARY_DIR}/hvd.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/hvd.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
