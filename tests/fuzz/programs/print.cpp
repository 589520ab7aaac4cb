#include "fuzz/programs/print.h"

#include "fuzz/programs/helpers.h"
#include "fuzz/programs/printer.h"
#include "fuzz/programs/text.h"

#include <string>
#include <vector>

namespace reprise::fuzz {

std::string function_text(const Program& program) {
  const auto body = Printer(program).text();
  std::string text;
  for (const auto& helper : helpers::all()) {
    if (body.find(std::string(helper.name) + "(") != std::string::npos ||
        body.find(std::string(helper.name) + "::") != std::string::npos) {
      text += broken_up(helper.text) + "\n\n";
    }
  }
  return text + body;
}

std::string includes_text() {
  return R"(#include <reprise/autocast.h>
#include <reprise/reprise.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

)";
}

std::string program_text(const Program& program, const std::string& comment) {
  return "// Seed " + std::to_string(program.seed) + ". " + comment + "\n" + includes_text() +
         function_text(program) + R"(
int main() {
  auto regions = program(true);
  for (const auto& [name, plain] : program(false)) {
    const bool is_same = plain.defined() == regions[name].defined() &&
                         (!plain.defined() || torch::equal(plain, regions[name]));
    std::cout << name << (is_same ? ": same\n" : ": DIFFERENT\n");
  }
}
)";
}

std::string programs_text(const std::vector<Program>& programs) {
  std::string functions;
  std::string list;
  for (const auto& program : programs) {
    const auto seed = std::to_string(program.seed);
    functions += "namespace seed_" + seed + " {\n\n" + function_text(program) + "\n}\n\n";
    list += "      {" + seed + "ULL, &seed_" + seed + "::program},\n";
  }
  return includes_text() + "#include \"fuzz/programs/printed_programs.h\"\n\n" +
         "namespace reprise::fuzz {\nnamespace {\n\n" + functions +
         "}  // namespace\n\nstd::vector<PrintedProgram> printed_programs() {\n  return {\n" +
         list + "  };\n}\n\n}  // namespace reprise::fuzz\n";
}

}  // namespace reprise::fuzz
