// Reads a pickle of torch.save without running anything.
//
// Note [Pickles are data here]
// A pickle is a program for a stack machine, and its instruction REDUCE calls any Python function.
// This machine has only the instructions that torch.save writes for a dictionary of tensors, and
// knows three functions by name, which it does not call: it notes their arguments. Everything else
// is refused by name.
#pragma once

#include "io/pickle/pickle_value.h"

#include <string>
#include <string_view>

namespace reprise::io {

/// Throws c10::Error, naming `source`, what was expected and what was found.
Pickle read_pickle(std::string_view bytes, const std::string& source);

}  // namespace reprise::io
