// A program as C++ that compiles against <reprise/reprise.h>.
#pragma once

#include "fuzz/programs/program.h"

#include <string>
#include <vector>

namespace reprise::fuzz {

/// A function `std::map<std::string, at::Tensor> program(bool with_regions)`, with the helpers that
/// it calls. It returns what the tester compares, under the names of observed_name().
std::string function_text(const Program& program);

/// The #include lines that functions need.
std::string includes_text();

/// A whole file with a main() that runs the program both ways and says what differs.
std::string program_text(const Program& program, const std::string& comment);

/// A file with the functions of several programs and a list of them, as printed_programs.h
/// declares it.
std::string programs_text(const std::vector<Program>& programs);

}  // namespace reprise::fuzz
