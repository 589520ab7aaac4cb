# What a wheel of the Python package decides before anything is found or built: for which PyTorch, with how many compilers
# at once, and where libraries look for each other. `pip install .` and script/wheel come here through pyproject.toml; what
# is installed is in python/wheel.
if(NOT REPRISE_TORCH)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/python/wheel/installed_torch.py
    OUTPUT_VARIABLE REPRISE_TORCH ERROR_VARIABLE _reprise_error OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT REPRISE_TORCH)
    message(FATAL_ERROR "${_reprise_error}")
  endif()
endif()

# A file that includes torch/torch.h takes up to 2 GB to compile.
cmake_host_system_information(RESULT _reprise_memory QUERY AVAILABLE_PHYSICAL_MEMORY)
math(EXPR _reprise_jobs "${_reprise_memory} / 2000")
if(_reprise_jobs LESS 1)
  set(_reprise_jobs 1)
endif()
set_property(GLOBAL APPEND PROPERTY JOB_POOLS compile=${_reprise_jobs})
set(CMAKE_JOB_POOL_COMPILE compile)

# From reprise/lib and reprise/bin, beside PyTorch in site-packages. Elsewhere, reprise/_program.py knows it.
set(REPRISE_RUN_PATH $ORIGIN $ORIGIN/../lib $ORIGIN/../../torch/lib)
