# Install rules: libraries, public headers, the program, and the package for find_package(Reprise).
include(CMakePackageConfigHelpers)

# Two exports: Reprise::checkpoint asks nothing of its users but LibTorch.
install(TARGETS reprise_checkpoint EXPORT RepriseTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS reprise_train EXPORT RepriseTrainTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET reprise_cuda)  # opened by reprise_train, beside which it is looked for
  install(TARGETS reprise_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET reprise)
  install(TARGETS reprise RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")

set(_reprise_package ${CMAKE_INSTALL_LIBDIR}/cmake/Reprise)
install(EXPORT RepriseTargets NAMESPACE Reprise:: DESTINATION ${_reprise_package})
install(EXPORT RepriseTrainTargets NAMESPACE Reprise:: DESTINATION ${_reprise_package})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/RepriseConfig.cmake.in
  ${PROJECT_BINARY_DIR}/RepriseConfig.cmake INSTALL_DESTINATION ${_reprise_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/RepriseConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/RepriseConfig.cmake
  ${PROJECT_BINARY_DIR}/RepriseConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake
  DESTINATION ${_reprise_package})
