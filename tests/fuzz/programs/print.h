// A program as C++ that compiles against <reprise/reprise.h>.
#pragma once

#include "fuzz/programs/program.h"

#include <string>

namespace reprise::fuzz {

/// A function `std::vector<at::Tensor> program(bool with_regions)` with what it needs. It returns
/// what the tester compares.
std::string function_text(const Program& program);

/// A whole file with a main() that runs the program both ways and says what differs.
std::string program_text(const Program& program, const std::string& comment);

}  // namespace reprise::fuzz
