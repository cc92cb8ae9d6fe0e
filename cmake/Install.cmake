# SPDX-License-Identifier: Apache-2.0
# The installed library: headers, one static and one shared library, and what find_package(weir) and
# pkg-config read. It is made of base, governor and capi alone, which use no third party; the rest
# of the house is the program `weir` and is not installed.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(library_parts weir_base weir_governor weir_capi)
set(library_objects)
set(library_headers)
foreach(part ${library_parts})
  list(APPEND library_objects $<TARGET_OBJECTS:${part}>)
  get_target_property(headers ${part} HEADER_SET_public)
  list(APPEND library_headers ${headers})
endforeach()

# weir::governor, the C++ and the C interface. The C++ one has no stable ABI, so it is static only.
add_library(weir_static STATIC ${library_objects})
set_target_properties(weir_static PROPERTIES OUTPUT_NAME weir EXPORT_NAME governor
  LINKER_LANGUAGE CXX)

# weir::c, the C interface alone: whatever else is inside stays inside.
add_library(weir_shared SHARED ${library_objects})
set(symbols ${CMAKE_SOURCE_DIR}/cmake/weir.map)
set_target_properties(weir_shared PROPERTIES OUTPUT_NAME weir EXPORT_NAME c LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${symbols})
target_link_options(weir_shared PRIVATE -Wl,--version-script=${symbols})
if(NOT WEIR_SANITIZE)
  # A part that came to need a third party fails here. (A sanitizer's own symbols come at run time.)
  target_link_options(weir_shared PRIVATE -Wl,--no-undefined)
endif()

foreach(library weir_static weir_shared)
  target_include_directories(${library} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
target_compile_features(weir_static INTERFACE cxx_std_23)

install(TARGETS weir_static weir_shared EXPORT weir
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(FILES ${library_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weir COMPONENT library)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/weir)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/weirConfig.cmake.in
  ${CMAKE_BINARY_DIR}/package/weirConfig.cmake INSTALL_DESTINATION ${package}
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the C++ interface; the C one is kept by its SOVERSION.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/weirConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/weirConfig.cmake
  ${CMAKE_BINARY_DIR}/package/weirConfigVersion.cmake DESTINATION ${package} COMPONENT library)
install(EXPORT weir NAMESPACE weir:: FILE weirTargets.cmake DESTINATION ${package}
  COMPONENT library)
# The package may be moved: its places are told from that of the file itself.
file(RELATIVE_PATH pkgconfig_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_SOURCE_DIR}/cmake/weir.pc.in ${CMAKE_BINARY_DIR}/package/weir.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/package/weir.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT library)
