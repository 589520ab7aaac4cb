# The versions of LibTorch that Reprise is built and tested with, newest first. script/setup fetches the first (or
# REPRISE_TORCH_VERSION), with the hashes in script/wheels; `script/test --torch all` runs on all. Other patches of these
# minor versions are accepted; other minor versions are not, because autograd's internals change between them.
set(REPRISE_TORCH_VERSIONS 2.15.0 2.14.1 2.13.0 2.12.1 2.11.0)

# Where script/setup puts them.
if(NOT REPRISE_TORCH_VERSION)
  list(GET REPRISE_TORCH_VERSIONS 0 REPRISE_TORCH_VERSION)
endif()
file(GLOB LibTorch_HINTS
  ${CMAKE_CURRENT_LIST_DIR}/../.deps/torch-${REPRISE_TORCH_VERSION}/lib/python3*/site-packages/torch)

# Refuses a LibTorch that was found and will not do.
function(reprise_check_torch)
  list(JOIN REPRISE_TORCH_VERSIONS ", " known)
  set(found "LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT_DIR}")
  string(CONCAT advice "Versions that do: ${known}. Install one (pip install torch==<version>) and set REPRISE_TORCH to "
    "its folder, or let script/setup fetch one (REPRISE_TORCH_VERSION=<version>).")
  string(REGEX MATCH "^[0-9]+\\.[0-9]+\\." minor "${LibTorch_VERSION}")
  set(is_known FALSE)
  foreach(version IN LISTS REPRISE_TORCH_VERSIONS)
    string(FIND "${version}" "${minor}" position)
    if(minor AND position EQUAL 0)
      set(is_known TRUE)
    endif()
  endforeach()
  if(NOT is_known)
    message(FATAL_ERROR "${found} is not a version that Reprise works with. ${advice}")
  endif()
  # A torch package says in version.py how it was built.
  if(EXISTS ${LibTorch_ROOT_DIR}/version.py)
    file(STRINGS ${LibTorch_ROOT_DIR}/version.py debug REGEX "^debug = True")
    if(debug)
      message(FATAL_ERROR "${found} is a debug build; Reprise needs a release build. ${advice}")
    endif()
  endif()
  # Names of functions that take a std::string contain the ABI of the standard library.
  file(STRINGS ${LibTorch_LIBRARY_DIR}/libc10.so names REGEX "_ZN3c10.*__cxx11" LIMIT_COUNT 1)
  if(NOT names)
    message(FATAL_ERROR "${found} was built with the old ABI of std::string (_GLIBCXX_USE_CXX11_ABI=0). ${advice}")
  endif()
endfunction()
