# Finds LibTorch in an installed torch package (a PyPI wheel) or an unpacked libtorch archive.
#
# Why not find_package(Torch): a CUDA wheel's TorchConfig.cmake insists on the CUDA toolkit even for
# a program that uses the CPU only. Nothing here links CUDA; a program that wants it opens
# libtorch_cuda.so at run time, and finds it through the run path to LibTorch_LIBRARY_DIR.
#
# Looks in, first match wins:
#   REPRISE_TORCH        CMake variable, then environment variable
#   LibTorch_HINTS       set by RepriseConfig.cmake: the LibTorch that the library was built with; in Reprise's own tree,
#                        what script/setup fetches
#   CMAKE_PREFIX_PATH and the system
#
# Gives the target LibTorch::LibTorch and LibTorch_FOUND, LibTorch_VERSION, LibTorch_ROOT_DIR,
# LibTorch_LIBRARY_DIR, LibTorch_HAS_CUDA (libtorch_cuda.so is there; whether it loads is not known).

set(_libtorch_roots)
if(REPRISE_TORCH)
  set(_libtorch_roots ${REPRISE_TORCH})
elseif(DEFINED ENV{REPRISE_TORCH} AND NOT "$ENV{REPRISE_TORCH}" STREQUAL "")
  set(_libtorch_roots $ENV{REPRISE_TORCH})
endif()
if(_libtorch_roots)
  # An explicit choice that does not hold is an error, never a silent fall back to another LibTorch.
  set(_libtorch_search NO_DEFAULT_PATH)
else()
  set(_libtorch_search)
  set(_libtorch_roots ${LibTorch_HINTS})
endif()

# Not cached, so that a changed REPRISE_TORCH takes effect at the next configure.
unset(LibTorch_INCLUDE_DIR CACHE)
unset(LibTorch_CPU_LIBRARY CACHE)
find_path(LibTorch_INCLUDE_DIR
  ATen/ATen.h
  HINTS ${_libtorch_roots}
  PATH_SUFFIXES include
  ${_libtorch_search})
if(LibTorch_INCLUDE_DIR)
  get_filename_component(LibTorch_ROOT_DIR ${LibTorch_INCLUDE_DIR} DIRECTORY)
endif()
find_library(LibTorch_CPU_LIBRARY
  torch_cpu
  HINTS ${LibTorch_ROOT_DIR}
  PATH_SUFFIXES lib
  NO_DEFAULT_PATH)
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_CPU_LIBRARY)

set(LibTorch_VERSION)
foreach(_libtorch_header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
  if(NOT LibTorch_VERSION AND EXISTS "${LibTorch_INCLUDE_DIR}/${_libtorch_header}")
    file(STRINGS "${LibTorch_INCLUDE_DIR}/${_libtorch_header}" _libtorch_lines
      REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
    string(REGEX MATCHALL "[0-9]+" LibTorch_VERSION "${_libtorch_lines}")
    list(JOIN LibTorch_VERSION "." LibTorch_VERSION)
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE
  "Set REPRISE_TORCH to the directory of an installed torch package (the one with include/ and lib/) or of an unpacked LibTorch. In Reprise's own tree script/setup fetches one.")

if(LibTorch_FOUND)
  get_filename_component(LibTorch_LIBRARY_DIR ${LibTorch_CPU_LIBRARY} DIRECTORY)
  set(LibTorch_HAS_CUDA OFF)
  if(EXISTS ${LibTorch_LIBRARY_DIR}/libtorch_cuda.so)
    set(LibTorch_HAS_CUDA ON)
  endif()
  if(NOT TARGET LibTorch::LibTorch)
    # libtorch_cpu and libc10 only: libtorch.so of a CUDA wheel would pull in libtorch_cuda.so and
    # with it 3 GB of CUDA libraries. libtorch_cpu.so carries its own rpath to libcudart/libcupti.
    add_library(LibTorch::c10 SHARED IMPORTED)
    set_target_properties(LibTorch::c10 PROPERTIES IMPORTED_LOCATION
      ${LibTorch_LIBRARY_DIR}/libc10.so)
    add_library(LibTorch::cpu SHARED IMPORTED)
    set_target_properties(LibTorch::cpu PROPERTIES IMPORTED_LOCATION ${LibTorch_CPU_LIBRARY})
    add_library(LibTorch::LibTorch INTERFACE IMPORTED)  # imported: its includes are SYSTEM
    target_include_directories(LibTorch::LibTorch INTERFACE
      ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
    target_compile_definitions(LibTorch::LibTorch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
    target_link_libraries(LibTorch::LibTorch INTERFACE LibTorch::cpu LibTorch::c10)
  endif()
endif()
