// Pieces of C++ text.
#pragma once

#include "fuzz/programs/operators.h"
#include "fuzz/programs/program.h"

#include <string>
#include <string_view>
#include <vector>

namespace reprise::fuzz {

/// "r5".
std::string name_of(Register reg);
/// "r5, r6", each after `before`.
std::string names_of(const std::vector<Register>& list, const std::string& before = "");
/// "torch::kFloat".
std::string dtype_text(c10::ScalarType dtype);
/// A row's expression with the instruction's registers and numbers in it.
std::string expression(const Instruction& instruction, const Operator& row);
/// Code on one line, as the preprocessor leaves it, broken up again.
std::string broken_up(std::string_view code);

}  // namespace reprise::fuzz
