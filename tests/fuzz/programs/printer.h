// Prints a program as a C++ function.
#pragma once

#include "fuzz/programs/program.h"
#include "fuzz/programs/text.h"

#include <string>
#include <vector>

namespace reprise::fuzz {

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {}

  std::string text() {
    line("std::map<std::string, at::Tensor> program(bool with_regions) {");
    ++indent_;
    print_start();
    for (const auto& instruction : program_.body) {
      print(instruction);
    }
    print_end();
    --indent_;
    line("}");
    return text_;
  }

 private:
  void line(const std::string& content) {
    text_ += std::string(static_cast<size_t>(indent_) * 2, ' ') + content + "\n";
  }
  void print_start();
  void print_end();
  void print(const Instruction& instruction);
  void print_operator(const Instruction& instruction);
  void print_region(const Instruction& instruction);
  void print_loop(const Instruction& instruction);
  void print_surrounded(const Instruction& instruction);
  void print_grad(const Instruction& instruction);
  void print_backward(const Instruction& instruction);
  void print_sequential(const Instruction& instruction);
  /// Declares registers that a block below assigns.
  void declare(const std::vector<Register>& list) {
    if (!list.empty()) {
      line("at::Tensor " + names_of(list) + ";");
    }
  }
  void assign(const std::vector<Register>& to, const std::vector<Register>& from, bool converts) {
    for (size_t i = 0; i < to.size(); ++i) {
      line(name_of(to[i]) + " = " + name_of(from[i]) +
           (converts ? ".to(" + dtype_text(program_.dtype) + ")" : "") + ";");
    }
  }
  void print_body(const Block& block) {
    ++indent_;
    for (const auto& instruction : block.body) {
      print(instruction);
    }
    --indent_;
  }
  std::string temporary() { return "t" + std::to_string(temporaries_++); }

  const Program& program_;
  std::string text_;
  int indent_ = 0;
  int temporaries_ = 0;
};

}  // namespace reprise::fuzz
