# How Reprise's targets are built: compile options, sanitizers, ccache, precompiled headers, and
# the functions that the CMakeLists.txt of each folder calls.

if(REPRISE_CCACHE)
  find_program(REPRISE_CCACHE_PROGRAM ccache)
  mark_as_advanced(REPRISE_CCACHE_PROGRAM)
endif()

# Flags that every target of ours has. Precompiled headers are only shared between targets with the
# same flags, so whatever changes code generation belongs here and not on one target.
set(_reprise_options -Wall -Wextra -Wshadow -Wconversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC sees uninitialised reads that are not there in LibTorch's inlined std::optional arguments.
  list(APPEND _reprise_options -Wno-maybe-uninitialized)
  if(REPRISE_UNITY)  # in a batch it takes .cpp files for headers, where anonymous namespaces would be a mistake
    list(APPEND _reprise_options -Wno-subobject-linkage)
  endif()
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # GCC's -Wconversion leaves signs out in C++; what one compiler takes the other should.
  list(APPEND _reprise_options -Wno-sign-conversion)
endif()
if(REPRISE_WERROR)
  list(APPEND _reprise_options -Werror)
endif()
# The linkers that need seconds where GNU ld needs minutes, when they are installed.
set(_reprise_link_options)
include(CheckLinkerFlag)
foreach(linker IN ITEMS mold lld)
  if(NOT _reprise_link_options)
    check_linker_flag(CXX -fuse-ld=${linker} REPRISE_HAS_${linker})
    if(REPRISE_HAS_${linker})
      set(_reprise_link_options -fuse-ld=${linker})
    endif()
  endif()
endforeach()
# Against attacks on memory; checked by tests/consumer/check_elf.py. Position-independent programs are the compilers' default.
list(APPEND _reprise_link_options LINKER:-z,relro,-z,now)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT REPRISE_SANITIZE)
  list(APPEND _reprise_options -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()
# LibTorch brings its own copy of fmt, which precedes the system's; header-only, either works.
# GTest::gtest defines the other one; programs that share a PCH with the tests must agree.
set(_reprise_definitions FMT_HEADER_ONLY=1 GTEST_HAS_PTHREAD=1)
if(REPRISE_ASSERTIONS)
  list(APPEND _reprise_definitions _GLIBCXX_ASSERTIONS)
endif()

if(REPRISE_SANITIZE)
  set(_reprise_sanitize -fsanitize=${REPRISE_SANITIZE} -fno-omit-frame-pointer)
  if(REPRISE_SANITIZE MATCHES undefined)
    # vptr needs the typeinfo of LibTorch classes, which LibTorch does not export for all of them.
    list(APPEND _reprise_sanitize -fno-sanitize=vptr -fno-sanitize-recover=undefined)
  endif()
  list(APPEND _reprise_link_options ${_reprise_sanitize})
  list(APPEND _reprise_options ${_reprise_sanitize} -DREPRISE_SANITIZED)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # TSan says that it does not model atomic_thread_fence, which LibTorch's headers contain.
    list(APPEND _reprise_options -Wno-tsan)
  endif()
endif()

# What ccache needs to see through a PCH, and to hand one out again after the headers' times changed.
set(_reprise_ccache_options)
if(REPRISE_PCH AND REPRISE_CCACHE_PROGRAM)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(_reprise_ccache_options -fpch-preprocess)
  elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    set(_reprise_ccache_options "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endif()

# Note [Run paths]
# Programs and libraries look for each other, and for LibTorch, in places relative to themselves: $ORIGIN, and no folder of
# the machine that built them. lib/reprise/libtorch is a link to LibTorch's libraries, in the build folder and where Reprise
# is installed. Both have the same run paths. Otherwise CMake would pad those of the build with ":", which the loader takes
# for the current folder.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/lib/reprise)
file(CREATE_LINK ${LibTorch_LIBRARY_DIR} ${PROJECT_BINARY_DIR}/lib/reprise/libtorch SYMBOLIC)
function(_reprise_run_path target)
  get_target_property(type ${target} TYPE)
  set(folders $ORIGIN $ORIGIN/reprise/libtorch)
  if(REPRISE_RUN_PATH)  # of a wheel
    set(folders ${REPRISE_RUN_PATH})
  elseif(type STREQUAL "EXECUTABLE")  # in bin or tests
    set(folders $ORIGIN/../lib $ORIGIN/../lib/reprise/libtorch
      $ORIGIN/../${CMAKE_INSTALL_LIBDIR} $ORIGIN/../${CMAKE_INSTALL_LIBDIR}/reprise/libtorch)
    list(REMOVE_DUPLICATES folders)
  endif()
  set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${folders}")
endfunction()

function(_reprise_configure target)
  _reprise_run_path(${target})
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE ${_reprise_options} ${_reprise_ccache_options})
  target_compile_definitions(${target} PRIVATE ${_reprise_definitions})
  target_link_options(${target} PRIVATE ${_reprise_link_options})
  if(REPRISE_CCACHE_PROGRAM)
    # The inode cache spares hashing the 0.7 GB of a PCH for each file.
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;CCACHE_INODECACHE=1;${REPRISE_CCACHE_PROGRAM}")
  endif()
endfunction()

# reprise_library(reprise_foo EXPORT_NAME foo [SOURCES a.cpp …] [LINK targets …]
#                 [LINK_PRIVATE targets …] [PCH headers …])
# A shared library, also known as Reprise::foo here and to those who install it. Sources may also
# come from the folders' own target_sources().
function(reprise_library target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXPORT_NAME" "SOURCES;LINK;LINK_PRIVATE;PCH")
  # Always shared: the autograd engine hooks and the allocator are one per process, and two static
  # copies in two shared objects would be two states.
  add_library(${target} SHARED ${arg_SOURCES})
  add_library(Reprise::${arg_EXPORT_NAME} ALIAS ${target})
  _reprise_configure(${target})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${arg_EXPORT_NAME}
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  target_include_directories(${target}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PUBLIC LibTorch::LibTorch ${arg_LINK} PRIVATE ${arg_LINK_PRIVATE})
  if(REPRISE_PCH AND arg_PCH)
    target_precompile_headers(${target} PRIVATE ${arg_PCH})
  endif()
endfunction()

# reprise_sources(target a.cpp b/c.cpp …): adds sources of this folder to a target. With REPRISE_UNITY, neighbours of one
# folder are compiled together, a batch at a time: headers and templates are then worked through once per batch. What
# stands in anonymous namespaces must have different names within a batch, so batches follow folders.
set(_reprise_batch 8)
function(reprise_sources target)
  foreach(source IN LISTS ARGN)
    set(path ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    target_sources(${target} PRIVATE ${path})
    if(NOT REPRISE_UNITY)
      continue()
    endif()
    cmake_path(GET path PARENT_PATH folder)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    # How many files of this folder the target has already.
    get_property(count TARGET ${target} PROPERTY REPRISE_COUNT_${folder})
    if(NOT count)
      set(count 0)
    endif()
    math(EXPR batch "${count} / ${_reprise_batch}")
    math(EXPR count "${count} + 1")
    set_property(TARGET ${target} PROPERTY REPRISE_COUNT_${folder} ${count})
    set_source_files_properties(${path} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${folder}_${batch})
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  endforeach()
endfunction()

# What a precompiled header holds is compiled once and then read in a moment, but GCC instantiates
# the templates that it uses again in every file: 5 s for torch/torch.h, 3 s for tensors and modules.
# (Clang does that once, in the header, and takes 0.4 s: that is why the scripts take it.) There are two:
#   torch    torch/torch.h, for the tests and for programs that include it
#   program  for the reprise program, the other examples and the benchmarks of training
# A PCH hides a forgotten #include; the build that clang-tidy reads has REPRISE_PCH=OFF and shows it.
function(_reprise_pch kind)
  set(target reprise_pch_${kind})
  if(TARGET ${target})
    return()
  endif()
  file(WRITE ${PROJECT_BINARY_DIR}/pch.cpp.in "// Carries the precompiled header.\n")
  configure_file(${PROJECT_BINARY_DIR}/pch.cpp.in ${PROJECT_BINARY_DIR}/${target}.cpp COPYONLY)
  add_library(${target} OBJECT ${PROJECT_BINARY_DIR}/${target}.cpp)
  _reprise_configure(${target})
  _reprise_compile_fast(${target})
  target_link_libraries(${target} PRIVATE LibTorch::LibTorch nlohmann_json::nlohmann_json)
  if(kind STREQUAL "program")
    find_package(CLI11 REQUIRED)
    target_link_libraries(${target} PRIVATE CLI11::CLI11)
    target_precompile_headers(${target} PRIVATE
      <ATen/ATen.h> <torch/autograd.h> <torch/nn/module.h> <nlohmann/json.hpp> <CLI/CLI.hpp>)
    return()
  endif()
  target_precompile_headers(${target} PRIVATE <torch/torch.h>)
  if(REPRISE_BUILD_TESTS)
    find_package(GTest REQUIRED)
    target_link_libraries(${target} PRIVATE GTest::gtest)
    target_precompile_headers(${target} PRIVATE <gtest/gtest.h>)
  endif()
endfunction()

# Programs and tests call the libraries, where the work is: with assertions on, compile time counts.
# One option for all of them, since they share precompiled headers.
function(_reprise_compile_fast target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0>)
endfunction()

# _reprise_use_pch(target kind)
function(_reprise_use_pch target kind)
  _reprise_compile_fast(${target})
  if(REPRISE_PCH)
    _reprise_pch(${kind})
    target_precompile_headers(${target} REUSE_FROM reprise_pch_${kind})
  endif()
endfunction()

# torch if the source includes it, else what is said. A wrong answer costs time only.
function(_reprise_pch_of result source otherwise)
  file(STRINGS ${source} includes REGEX "#include <torch/torch.h>")
  if(includes)
    set(${result} torch PARENT_SCOPE)
  else()
    set(${result} ${otherwise} PARENT_SCOPE)
  endif()
endfunction()

# reprise_program(name [SOURCES a.cpp …] [LINK targets …]) -> bin/name
# Sees the public headers only, as a user's program does. Sources may also come from reprise_sources().
function(reprise_program target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  add_executable(${target} ${arg_SOURCES})
  _reprise_configure(${target})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  target_link_libraries(${target} PRIVATE Reprise::checkpoint ${arg_LINK})
  set(pch program)
  if(arg_SOURCES)
    list(GET arg_SOURCES 0 first)
    _reprise_pch_of(pch ${first} program)
  endif()
  _reprise_use_pch(${target} ${pch})
  reprise_group(programs ${target})
endfunction()

# reprise_group(name target): `cmake --build … --target name` then builds target too.
function(reprise_group name target)
  if(NOT TARGET ${name})
    add_custom_target(${name})
  endif()
  add_dependencies(${name} ${target})
endfunction()

# What every test process gets. Some virtual CPUs announce AMX and fault on it in bf16 matmuls, so
# oneDNN is held below it; sanitizer options only matter in sanitizer builds.
set(_reprise_supp ${PROJECT_SOURCE_DIR}/tools/sanitizers)
# Not instrumented, LibTorch hands over containers whose bounds ASan has not followed.
set(REPRISE_ASAN_OPTIONS allocator_may_return_null=1:detect_container_overflow=0:detect_odr_violation=0:suppressions=${_reprise_supp}/asan.supp)
set(REPRISE_TEST_ENVIRONMENT
  ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16
  ASAN_OPTIONS=${REPRISE_ASAN_OPTIONS}
  LSAN_OPTIONS=suppressions=${_reprise_supp}/lsan.supp:print_suppressions=0
  UBSAN_OPTIONS=print_stacktrace=1:suppressions=${_reprise_supp}/ubsan.supp
  TSAN_OPTIONS=allocator_may_return_null=1:suppressions=${_reprise_supp}/tsan.supp)

function(_reprise_register_test name timeout labels)
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${timeout}
    LABELS "${labels}"
    SKIP_RETURN_CODE 77
    ENVIRONMENT "${REPRISE_TEST_ENVIRONMENT};GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/gtest/${name}.xml")
endfunction()

# docs/migrating.md answers flags of other programs, in the program too.
function(_reprise_add_migrating_document target)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/migrating.md)
  file(READ ${PROJECT_SOURCE_DIR}/docs/migrating.md REPRISE_MIGRATING_DOCUMENT)
  configure_file(${PROJECT_SOURCE_DIR}/apps/reprise/training/flags/migrating_document.cpp.in migrating_document.cpp @ONLY)
  target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/migrating_document.cpp)
endfunction()

# reprise_test_program(folder [LINK targets …]) -> tests/folder_tests
# One program for the tests of a folder; reprise_test() adds a file to it. Tests may use src/ headers; what they call
# must be REPRISE_API, as nothing else leaves the shared library.
function(reprise_test_program folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINK")
  set(program ${folder}_tests)
  add_executable(${program})
  _reprise_configure(${program})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${program} PRIVATE REPRISE_FIXTURES="${PROJECT_SOURCE_DIR}/tests/fixtures")
  target_link_libraries(${program} PRIVATE Reprise::checkpoint reprise_test_support ${arg_LINK})
  _reprise_use_pch(${program} torch)
  set(REPRISE_TEST_PROGRAM ${program} PARENT_SCOPE)
endfunction()

# reprise_test(name file.cpp LABELS unit [engine files gpu …] [TIMEOUT s])
# Adds the file to the folder's program, and a ctest entry that runs the file's tests alone. A crash in one of them fails
# that one; the others still run (tests/support/crash_isolation.h).
function(reprise_test name source)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "TIMEOUT" "LABELS")
  if(NOT arg_LABELS)
    message(FATAL_ERROR "reprise_test(${name}): say LABELS unit, engine, threads, files and/or gpu")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(REPRISE_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 5")
  endif()
  reprise_sources(${REPRISE_TEST_PROGRAM} ${source})
  cmake_path(GET source STEM stem)
  add_test(NAME ${name} COMMAND ${REPRISE_TEST_PROGRAM} --file=${stem})
  _reprise_register_test(${name} ${arg_TIMEOUT} "${arg_LABELS}")
  foreach(label IN LISTS arg_LABELS)
    reprise_group(tests_${label} ${REPRISE_TEST_PROGRAM})
  endforeach()
endfunction()

# reprise_tests(LABELS unit … [TIMEOUT s] FILES a_test folder/b_test …): reprise_test() for each of these files,
# without .cpp.
function(reprise_tests)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TIMEOUT" "LABELS;FILES")
  foreach(file IN LISTS arg_FILES)
    cmake_path(GET file STEM name)
    reprise_test(${name} ${file}.cpp LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT})
  endforeach()
endfunction()

# reprise_compile_fail_test(name file.cpp MATCH "regex")
# The file must compile with -DREPRISE_VALID, and without it fail with a message that matches.
function(reprise_compile_fail_test name source)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "MATCH" "")
  set(flags ${CMAKE_CXX_FLAGS})
  if(CMAKE_BUILD_TYPE)
    string(TOUPPER ${CMAKE_BUILD_TYPE} type)
    string(APPEND flags " ${CMAKE_CXX_FLAGS_${type}}")
  endif()
  set(pch)
  if(REPRISE_PCH)
    # The library's PCH, and so its flags and its macro: 2 s a file instead of 10 s. -Winvalid-pch
    # (an error, as all warnings) tells when they no longer match.
    set(pch $<TARGET_PROPERTY:reprise_checkpoint,BINARY_DIR>/CMakeFiles/reprise_checkpoint.dir/cmake_pch.hxx)
    string(APPEND flags " -fPIC -Winvalid-pch -Dreprise_checkpoint_EXPORTS")
  endif()
  set(system $<TARGET_PROPERTY:LibTorch::LibTorch,INTERFACE_INCLUDE_DIRECTORIES>)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND}
    "-DCOMPILER=${CMAKE_CXX_COMPILER}"
    "-DFLAGS=${flags} -fvisibility=hidden -fvisibility-inlines-hidden"
    "-DOPTIONS=${_reprise_options}"
    "-DDEFINITIONS=${_reprise_definitions};$<TARGET_PROPERTY:LibTorch::LibTorch,INTERFACE_COMPILE_DEFINITIONS>"
    "-DINCLUDES=${PROJECT_SOURCE_DIR}/include;${PROJECT_SOURCE_DIR}/src"
    "-DSYSTEM_INCLUDES=${system}"
    "-DPCH=${pch}"
    "-DSOURCE=${CMAKE_CURRENT_SOURCE_DIR}/${source}"
    "-DMATCH=${arg_MATCH}"
    -P ${PROJECT_SOURCE_DIR}/cmake/CompileFail.cmake)
  _reprise_register_test(${name} 300 "unit;compile")
endfunction()

# reprise_example(name file.cpp [SMOKE args …] [LABELS …])
# SMOKE runs the example with these arguments (may be empty) as a test; it passes on exit code 0.
function(reprise_example name source)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SMOKE;LABELS;LINK")
  reprise_program(${name} SOURCES ${source} LINK ${arg_LINK})
  if(REPRISE_BUILD_TESTS AND (DEFINED arg_SMOKE OR "SMOKE" IN_LIST arg_KEYWORDS_MISSING_VALUES))
    if(NOT arg_LABELS)
      set(arg_LABELS unit)
    endif()
    add_test(NAME example.${name} COMMAND ${name} ${arg_SMOKE})
    _reprise_register_test(example.${name} 120 "${arg_LABELS};example")
    reprise_group(tests_unit ${name})
  endif()
endfunction()

# reprise_benchmark(name file.cpp) -> bin/bench_name.
function(reprise_benchmark name source)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "LINK")
  reprise_program(bench_${name} SOURCES ${source} LINK ${arg_LINK})
  target_include_directories(bench_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  reprise_group(benchmarks bench_${name})
endfunction()
