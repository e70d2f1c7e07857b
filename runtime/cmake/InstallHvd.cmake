# libhvd as it is installed, and what find_package(hvd) and pkg-config need of it. In a wheel it is below hvd/.
include(CMakePackageConfigHelpers)

if(SKBUILD)  # a wheel holds no links: the library is linked to by the name by which it is loaded
  set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME wheel)
  set(hvd_library_component wheel)
  set_target_properties(hvd PROPERTIES VERSION ${PROJECT_VERSION_MAJOR})
  set(hvd_link NAMELINK_SKIP)
  set(HVD_PC_LIBRARY :libhvd.so.${PROJECT_VERSION_MAJOR})
else()
  set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME libhvd-devel)
  set(hvd_library_component libhvd)
  set(hvd_link NAMELINK_COMPONENT libhvd-devel)
  set(HVD_PC_LIBRARY hvd)
endif()
set(HVD_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/hvd)
install(TARGETS hvd EXPORT hvdTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${hvd_library_component} ${hvd_link})
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
