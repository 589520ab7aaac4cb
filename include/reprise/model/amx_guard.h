// A workaround for virtual machines whose CPU claims to support AMX but cannot execute it.
//
// There, oneDNN's first bfloat16 matrix product kills the process with an illegal instruction.
#pragma once

#include <reprise/export.h>

namespace reprise {

/// If the CPU claims to support AMX, tries it in a child process. If the child dies, tells oneDNN
/// not to use it, by ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16, unless the user has set that variable.
/// Returns whether AMX was switched off. Call it first in main(), before there are threads and
/// before LibTorch is used.
REPRISE_API bool guard_against_faulting_amx();

}  // namespace reprise
