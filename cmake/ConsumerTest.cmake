# Installs components of Reprise into an empty prefix, then configures, builds and runs a user's project on them.
# What is installed must be complete: every header compiles alone, and what it declares is in the component's library.
file(REMOVE_RECURSE ${WORK})
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  message("${output}")
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "failed (${result}): ${command}")
  endif()
endfunction()

foreach(component IN LISTS COMPONENTS)
  step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --component ${component})
endforeach()
list(GET COMPONENTS -1 component)
if(component STREQUAL "program")
  step(${WORK}/prefix/bin/reprise --version)  # finds its libraries where they were installed
  step(${PYTHON} ${SOURCE}/check_elf.py ${ELF_OPTIONS} ${WORK}/prefix)
  return()
endif()

# With REPRISE_HEADERS_ALONE (script/test --all) nothing is precompiled: minutes instead of seconds.
set(precompiled ON)
if(DEFINED ENV{REPRISE_HEADERS_ALONE})
  set(precompiled OFF)
endif()
# REPRISE_TORCH is not passed on: the installed package has to know its LibTorch by itself.
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR} -DCOMPONENT=${component} -DPRECOMPILED=${precompiled}
  -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_BUILD_TYPE=Debug)
step(${CMAKE_COMMAND} --build ${WORK}/build)
step(${WORK}/build/consumer)
step(${PYTHON} ${SOURCE}/check_exports.py ${WORK}/prefix ${component})
step(${PYTHON} ${SOURCE}/check_torch.py ${CMAKE_COMMAND} ${SOURCE}/../.. ${WORK}/torch ${WORK}/prefix)
