#include <reprise/model/amx_guard.h>

#include "model/child_process.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace reprise {

bool model::dies_in_child(void (*probe)()) {
  const pid_t child = fork();
  if (child < 0) {
    return false;
  }
  if (child == 0) {
    probe();
    _exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFSIGNALED(status);
}

#ifdef __x86_64__

namespace {

constexpr const char* kIsaVariable = "ONEDNN_MAX_CPU_ISA";

bool claims_amx() {
  constexpr unsigned kExtendedFeatures = 7;
  constexpr unsigned kAmxBf16 = 1U << 22, kAmxTile = 1U << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(kExtendedFeatures, 0, &a, &b, &c, &d) != 0 && (d & kAmxBf16) != 0 &&
         (d & kAmxTile) != 0;
}

// One tile product, as oneDNN would do it. If the kernel does not grant tiles, oneDNN notices that
// by itself.
__attribute__((target("amx-tile,amx-bf16"))) void multiply_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) {
    return;
  }
  struct alignas(64) TileConfig {
    unsigned char palette = 1, start_row = 0, reserved[14] = {};
    unsigned short bytes_per_row[16] = {64, 64, 64};
    unsigned char rows[16] = {16, 16, 16};
  } config;
  alignas(64) unsigned char data[1024] = {};
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_loadd(1, data, 64);
  _tile_loadd(2, data, 64);
  _tile_dpbf16ps(0, 1, 2);
  _tile_stored(0, data, 64);
  _tile_release();
}

}  // namespace

bool guard_against_faulting_amx() {
  if (getenv(kIsaVariable) != nullptr || !claims_amx() || !model::dies_in_child(multiply_tiles)) {
    return false;
  }
  setenv(kIsaVariable, "AVX512_CORE_BF16", /*overwrite=*/0);
  return true;
}

#else

bool guard_against_faulting_amx() {
  return false;
}

#endif

}  // namespace reprise
