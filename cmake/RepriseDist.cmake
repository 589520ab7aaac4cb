# Decides REPRISE_GLOO and REPRISE_NCCL: whether processes can talk to each other, with CPU tensors and with GPUs. The
# code is in LibTorch; its headers need those of Gloo (Debian: libgloo-dev) and of NCCL (the Python package
# nvidia-nccl-cu13, or NVIDIA's libnccl-dev). AUTO takes what is there, ON insists.
function(_reprise_backend name header reason)
  set(option REPRISE_${name})
  if(NOT reason AND ${option})
    find_path(${option}_INCLUDE_DIR ${header} HINTS ${ARGN})
    mark_as_advanced(${option}_INCLUDE_DIR)
    if(NOT ${option}_INCLUDE_DIR)
      set(reason "no ${header}")
    endif()
  elseif(NOT reason)
    set(reason "switched off")
  endif()
  if(reason AND ${option} AND NOT ${option} STREQUAL "AUTO")
    message(FATAL_ERROR "${option}=${${option}}, but: ${reason}")
  elseif(reason)
    message(STATUS "${name}: not used (${reason})")
    set(${option} OFF PARENT_SCOPE)
  else()
    message(STATUS "${name}: used")
    set(${option} ON PARENT_SCOPE)
  endif()
endfunction()

_reprise_backend(GLOO gloo/transport/device.h "")

set(_reprise_nccl_missing "")
if(NOT REPRISE_CUDA)
  set(_reprise_nccl_missing "no CUDA kernels are compiled")
endif()
_reprise_backend(NCCL nccl.h "${_reprise_nccl_missing}"
  ${LibTorch_LIBRARY_DIR}/../../nvidia/nccl/include ${CUDAToolkit_INCLUDE_DIRS})
