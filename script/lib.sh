# Shared by the scripts; sourced, not run. Leaves the shell in the repository root.
# shellcheck shell=bash
set -euo pipefail
script_path=$(realpath "$0")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# Prints the comment block at the head of the calling script, and exits, if --help is among "$@".
help_if_asked() {
  local argument
  for argument in "$@"; do
    if [[ $argument == --help || $argument == -h ]]; then
      sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$script_path"
      exit 0
    fi
  done
}

# Compile jobs: a file that includes torch/torch.h takes up to 2 GB.
jobs() {
  local by_memory
  by_memory=$(awk '/MemAvailable/ {print int($2 / 2000000) + 0}' /proc/meminfo 2>/dev/null || echo 2)
  local cores
  cores=${REPRISE_JOBS:-$(nproc)}
  echo $((by_memory < 1 ? 1 : by_memory < cores ? by_memory : cores))
}

# The versions of LibTorch that Reprise works with, newest first, and the one that is used.
torch_versions() { sed -n 's/^set(REPRISE_TORCH_VERSIONS \(.*\))$/\1/p' cmake/TorchVersions.cmake | tr ' ' '\n'; }
torch_version() { echo "${REPRISE_TORCH_VERSION:-$(torch_versions | head -1)}"; }

# Where a preset is built. With REPRISE_BUILD_SUFFIX, beside the usual one: for another LibTorch.
build_folder() { echo "build/$1${REPRISE_BUILD_SUFFIX:-}"; }

# configure PRESET: configures build/PRESET; quick when nothing changed. The compiler is CXX, or Clang where it is
# installed: it needs a third of GCC's time. A build folder keeps the compiler that it was made with.
configure() {
  if [[ -z ${CXX:-} ]] && command -v clang++ >/dev/null; then local -x CXX=clang++; fi
  cmake --preset "$1" -B "$(build_folder "$1")" -DREPRISE_TORCH="${REPRISE_TORCH:-}" \
    -DREPRISE_TORCH_VERSION="${REPRISE_TORCH_VERSION:-}" --log-level=WARNING >&2
}

# build PRESET [targets…]
build() {
  local preset=$1
  shift
  configure "$preset"
  cmake --build "$(build_folder "$preset")" --parallel "$(jobs)" ${@:+--target "$@"} >&2
}

# What a GPU needs. PyPI's wheel alone has libtorch_cuda.so, but not the CUDA libraries that it needs.
has_gpu() { [[ -e /dev/nvidiactl ]] || nvidia-smi -L >/dev/null 2>&1; }
has_nvcc() { command -v nvcc >/dev/null || [[ -x ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]]; }
torch_has_cuda() {
  local torch=${REPRISE_TORCH:-$(echo ".deps/torch-$(torch_version)"/lib/python3*/site-packages/torch)}
  [[ -f $torch/lib/libtorch_cuda.so && $(ldd "$torch/lib/libtorch_cuda.so") != *'not found'* ]]
}

# Our C++ files, tracked or new.
cpp_files() {
  git ls-files -co --exclude-standard '*.h' '*.cpp' '*.cu' '*.cuh' | while read -r file; do
    if [[ -f $file ]]; then echo "$file"; fi
  done
}
