// A guard against CPUs that announce matrix tiles (AMX) and fault when they are used.
//
// Some virtual machines pass the announcement on but not the instructions: the first bfloat16
// matrix product of oneDNN then ends the process with an illegal instruction.
#pragma once

#include <reprise/export.h>

namespace reprise {

/// If the CPU announces AMX, tries it in a child process; if that dies, tells oneDNN to do without
/// (ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16). Call it first thing in main(): before threads exist and
/// before LibTorch is used. A setting of the user's wins. Returns whether AMX was switched off.
REPRISE_API bool guard_against_faulting_amx();

namespace detail {

/// Runs `probe` in a child process; whether a signal ended it.
REPRISE_API bool dies_in_a_child(void (*probe)());

}  // namespace detail

}  // namespace reprise
