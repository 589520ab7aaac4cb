# Run by reprise_compile_fail_test(): compiles SOURCE twice, syntax only.
# First the valid variant, so that a file that fails for the wrong reason does not count.
separate_arguments(FLAGS UNIX_COMMAND "${FLAGS}")
set(command ${COMPILER} -std=c++20 -fsyntax-only -fdiagnostics-color=never ${FLAGS} ${OPTIONS})
foreach(definition IN LISTS DEFINITIONS)
  list(APPEND command -D${definition})
endforeach()
foreach(directory IN LISTS INCLUDES)
  list(APPEND command -I${directory})
endforeach()
foreach(directory IN LISTS SYSTEM_INCLUDES)
  list(APPEND command -isystem ${directory})
endforeach()
if(PCH AND (EXISTS ${PCH}.gch OR EXISTS ${PCH}.pch))  # GCC's, Clang's
  list(APPEND command -include ${PCH})
endif()

execute_process(COMMAND ${command} -DREPRISE_VALID ${SOURCE}
  RESULT_VARIABLE valid_result ERROR_VARIABLE valid_error)
if(NOT valid_result EQUAL 0)
  message(FATAL_ERROR "${SOURCE} must compile with REPRISE_VALID defined, but:\n${valid_error}")
endif()

execute_process(COMMAND ${command} ${SOURCE} RESULT_VARIABLE result ERROR_VARIABLE error)
if(result EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles, and must not: expected an error matching '${MATCH}'")
endif()
if(NOT error MATCHES "${MATCH}")
  message(FATAL_ERROR "${SOURCE} fails, but not with a message matching '${MATCH}':\n${error}")
endif()
