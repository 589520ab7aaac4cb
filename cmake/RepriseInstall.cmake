# Install rules, by component: checkpoint (the engine; asks nothing of its users but LibTorch), train (the
# library behind the program), program. `cmake --install build/release` installs all that was built.
include(CMakePackageConfigHelpers)
set(_reprise_package ${CMAKE_INSTALL_LIBDIR}/cmake/Reprise)

# The engine's headers stand at the top of include/reprise, with detail/; those of train in folders, and
# reprise/train.h includes them.
install(TARGETS reprise_checkpoint EXPORT RepriseTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT checkpoint)
install(EXPORT RepriseTargets NAMESPACE Reprise:: DESTINATION ${_reprise_package} COMPONENT checkpoint)
# See Note [Run paths]. A folder of that name, with a LibTorch in it, stays.
install(CODE "
  set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/reprise\")
  if(IS_SYMLINK \"\${folder}/libtorch\" OR NOT EXISTS \"\${folder}/libtorch\")
    file(MAKE_DIRECTORY \"\${folder}\")
    file(CREATE_LINK \"${LibTorch_LIBRARY_DIR}\" \"\${folder}/libtorch\" SYMBOLIC)
  endif()" COMPONENT checkpoint)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT checkpoint
  FILES_MATCHING
  REGEX "/reprise/[a-z_]+\\.h$"
  REGEX "/reprise/detail/[a-z_]+\\.h$"
  REGEX "/reprise/train\\.h$" EXCLUDE
  REGEX "/reprise/(data|dist|io|jinja|loss|model|ops|optim|parallel|report|reward|text|train)$" EXCLUDE)

if(REPRISE_BUILD_TRAIN)
  install(TARGETS reprise_train EXPORT RepriseTrainTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT train)
  install(EXPORT RepriseTrainTargets NAMESPACE Reprise:: DESTINATION ${_reprise_package} COMPONENT train)
  install(FILES ${PROJECT_SOURCE_DIR}/include/reprise/train.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/reprise COMPONENT train)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/reprise DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT train
    FILES_MATCHING
    REGEX "/reprise/[a-z_]+/[a-z_]+\\.h$"
    REGEX "/reprise/detail$" EXCLUDE)
endif()
if(TARGET reprise_cuda)  # opened by reprise_train, beside which it is looked for; only if it was built
  install(TARGETS reprise_cuda OPTIONAL LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT train)
endif()

if(TARGET reprise)
  install(TARGETS reprise RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/RepriseConfig.cmake.in
  ${PROJECT_BINARY_DIR}/RepriseConfig.cmake INSTALL_DESTINATION ${_reprise_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/RepriseConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/RepriseConfig.cmake
  ${PROJECT_BINARY_DIR}/RepriseConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake
  DESTINATION ${_reprise_package} COMPONENT checkpoint)
