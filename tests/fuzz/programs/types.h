// Types of a program's registers (see operators.h).
#pragma once

#include "fuzz/programs/program.h"

namespace reprise::fuzz {

/// Whether every register is assigned before it is read, in a block that the reader can see, and
/// has a type that the reader takes. Some operators of LibTorch read beyond a tensor of another
/// shape.
bool is_well_typed(const Program& program);

}  // namespace reprise::fuzz
