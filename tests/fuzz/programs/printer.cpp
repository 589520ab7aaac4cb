#include "fuzz/programs/printer.h"

#include "fuzz/programs/operators.h"
#include "fuzz/programs/region_options.h"

#include <set>

namespace reprise::fuzz {
namespace {

/// The registers that the program uses at all.
std::set<Register> used_registers(const Program& program) {
  std::set<Register> used;
  for_each_instruction(program.body, [&used](const Instruction& instruction) {
    used.insert(instruction.inputs.begin(), instruction.inputs.end());
    for (const auto& block : instruction.blocks) {
      used.insert(block.results.begin(), block.results.end());
    }
  });
  return used;
}

}  // namespace

void Printer::print_start() {
  line("[[maybe_unused]] constexpr int64_t R = " + std::to_string(program_.rows) +
       ", D = " + std::to_string(program_.columns) + ", H = D / 2;");
  line("[[maybe_unused]] const at::TensorOptions options(" + dtype_text(program_.dtype) + ");");
  line(
      "const auto region = [with_regions](const reprise::CheckpointOptions& how, auto fn, auto... "
      "arguments) {");
  line("  return with_regions ? reprise::checkpoint(how, fn, arguments...) : fn(arguments...);");
  line("};");
  line("torch::manual_seed(" + std::to_string(program_.seed) + "ULL);");
  for (int i = 0; i < program_.generators; ++i) {
    line("auto g" + std::to_string(i) + " = at::make_generator<at::CPUGeneratorImpl>(uint64_t{" +
         std::to_string(i + 1) + "});");
  }
  const auto used = used_registers(program_);
  for (const auto& leaf : program_.leaves) {
    if (!used.contains(leaf.reg)) {
      continue;
    }
    std::string shape;
    for (const auto size : shape_of(leaf.type, program_.rows, program_.columns)) {
      shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    }
    const std::string start = "const auto " + name_of(leaf.reg) + " = ";
    if (leaf.type == 'n' || leaf.type == 'g') {
      line(start + "torch::zeros({}, " + (leaf.type == 'n' ? "torch::kLong" : "torch::kDouble") +
           ");");
    } else if (leaf.type == 'i') {
      line(start + "torch::arange(R, torch::kLong).remainder(D);");
    } else {
      line(start + "leaf({" + shape + "}, " + dtype_text(program_.dtype) + ", " +
           std::to_string(leaf.reg) + ")" + (leaf.requires_grad ? ".set_requires_grad(true)" : "") +
           ";");
    }
  }
}

void Printer::print_end() {
  std::vector<Register> seen;
  const auto used = used_registers(program_);
  for (const auto& leaf : program_.leaves) {
    if (used.contains(leaf.reg)) {
      seen.push_back(leaf.reg);
    }
  }
  for (const auto& instruction : program_.body) {
    seen.insert(seen.end(), instruction.outputs.begin(), instruction.outputs.end());
  }
  line("std::map<std::string, at::Tensor> seen;");
  for (const Register reg : seen) {
    const auto name = name_of(reg);
    line("seen[\"" + name + "\"] = " + name + ";");
    line("seen[\"the gradient of " + name + "\"] = observed_gradient(" + name + ");");
  }
  line("seen[\"the default generator\"] = at::detail::getDefaultCPUGenerator().get_state();");
  for (int i = 0; i < program_.generators; ++i) {
    const auto name = "g" + std::to_string(i);
    line("seen[\"generator " + name + "\"] = " + name + ".get_state();");
  }
  line("return seen;");
}

void Printer::print(const Instruction& instruction) {
  switch (instruction.kind) {
    case Kind::Operator:
      return print_operator(instruction);
    case Kind::Region:
      return print_region(instruction);
    case Kind::Loop:
      return print_loop(instruction);
    case Kind::Backward:
      return print_backward(instruction);
    case Kind::Grad:
      return print_grad(instruction);
    case Kind::Sequential:
      return print_sequential(instruction);
    case Kind::Parallel: {
      const auto name = temporary();
      line("std::vector<std::future<void>> " + name + ";");
      for (const auto& block : instruction.blocks) {
        line(name + ".push_back(std::async(std::launch::async, [&] {");
        print_body(block);
        line("}));");
      }
      return line("for (auto& thread : " + name + ") thread.get();");
    }
    default:
      return print_surrounded(instruction);
  }
}

void Printer::print_operator(const Instruction& instruction) {
  const auto& row = operators()[static_cast<size_t>(instruction.op)];
  const auto text = expression(instruction, row);
  if (instruction.outputs.empty()) {
    line(text + ";");
  } else if (instruction.outputs.size() == 1) {
    line("const auto " + name_of(instruction.outputs[0]) + " = " + text + ";");
  } else {
    const auto name = temporary();
    line("const auto " + name + " = " + text + ";");
    for (size_t i = 0; i < instruction.outputs.size(); ++i) {
      line("const auto " + name_of(instruction.outputs[i]) + " = " + name + "[" +
           std::to_string(i) + "];");
    }
  }
}

void Printer::print_region(const Instruction& instruction) {
  const Block& block = instruction.blocks[0];
  const auto name = temporary();
  line("const auto " + name + " = region(" +
       options_text(instruction.options, program_.generators) + ", [=](" +
       names_of(block.parameters, "at::Tensor ") + ") {");
  print_body(block);
  line("  return std::vector<at::Tensor>{" + names_of(block.results) + "};");
  line("}" + (instruction.inputs.empty() ? "" : ", " + names_of(instruction.inputs)) + ");");
  for (size_t i = 0; i < instruction.outputs.size(); ++i) {
    line("const auto " + name_of(instruction.outputs[i]) + " = " + name + "[" + std::to_string(i) +
         "];");
  }
}

void Printer::print_loop(const Instruction& instruction) {
  const Block& block = instruction.blocks[0];
  for (size_t i = 0; i < block.parameters.size(); ++i) {
    line("auto " + name_of(block.parameters[i]) + " = " + name_of(instruction.inputs[i]) + ";");
  }
  const auto name = temporary();
  line("for (int " + name + " = 0; " + name + " < " + std::to_string(instruction.integer) + "; ++" +
       name + ") {");
  print_body(block);
  ++indent_;
  assign(block.parameters, block.results, false);
  --indent_;
  line("}");
  for (size_t i = 0; i < instruction.outputs.size(); ++i) {
    line("const auto " + name_of(instruction.outputs[i]) + " = " + name_of(block.parameters[i]) +
         ";");
  }
}

void Printer::print_surrounded(const Instruction& instruction) {
  const Block& block = instruction.blocks[0];
  declare(instruction.outputs);
  const auto kind = instruction.kind;
  line(kind == Kind::Try      ? "try {"
       : kind == Kind::Thread ? "std::async(std::launch::async, [&] {"
                              : "{");
  if (kind == Kind::NoGrad) {
    line("  const torch::NoGradGuard no_grad;");
  } else if (kind == Kind::Autocast) {
    line("  const reprise::AutocastScope autocast(at::kCPU, at::kBFloat16);");
  } else if (kind == Kind::EnableGrad) {
    line("  const torch::AutoGradMode enabled(true);");
  } else if (kind == Kind::Inference) {
    line("  const c10::InferenceMode inference;");
  } else if (kind == Kind::BelowAutograd) {
    line("  const at::AutoDispatchBelowADInplaceOrView below;");
  } else if (kind == Kind::Group) {
    line("  const reprise::GraphExecGroup group;");
  }
  print_body(block);
  ++indent_;
  assign(instruction.outputs, block.results, kind == Kind::Autocast);
  --indent_;
  line(kind == Kind::Try ? "} catch (const std::runtime_error&) {} catch (const c10::Error& error) "
                           "{ rethrow_ours(error); }"
       : kind == Kind::Thread ? "}).get();"
                              : "}");
  if (kind == Kind::Inference) {
    for (const Register reg : instruction.outputs) {
      line(name_of(reg) + " = " + name_of(reg) + ".clone();");
    }
  }
}

void Printer::print_sequential(const Instruction& instruction) {
  const auto name = temporary();
  line("const std::vector<std::function<at::Tensor(at::Tensor)>> " + name + "{");
  for (const auto& block : instruction.blocks) {
    line("  [=](" + names_of(block.parameters, "at::Tensor ") + ") -> at::Tensor {");
    ++indent_;
    print_body(block);
    --indent_;
    line("    return " + names_of(block.results) + ";");
    line("  },");
  }
  line("};");
  line("const auto " + names_of(instruction.outputs) +
       " = with_regions ? reprise::checkpoint_sequential(" +
       options_text(instruction.options, program_.generators) + ", " + name + ", " +
       std::to_string(instruction.integer) + ", " + names_of(instruction.inputs) +
       ") : apply_all(" + name + ", " + names_of(instruction.inputs) + ");");
}

void Printer::print_backward(const Instruction& instruction) {
  const auto split = instruction.inputs.begin() + instruction.integer;
  const std::vector<Register> into(split, instruction.inputs.end());
  line("torch::autograd::backward({" + names_of({instruction.inputs.begin(), split}) + "}, {}, " +
       (instruction.retain_graph ? "true" : "false") +
       (into.empty() && !instruction.create_graph ? ""
        : instruction.create_graph                ? ", true"
                                                  : ", false") +
       (into.empty() ? "" : ", {" + names_of(into) + "}") + ");");
}

void Printer::print_grad(const Instruction& instruction) {
  const auto split = instruction.inputs.begin() + instruction.integer;
  const std::vector<Register> losses(instruction.inputs.begin(), split);
  const std::vector<Register> inputs(split, instruction.inputs.end());
  const auto name = temporary();
  const bool retains = instruction.retain_graph || instruction.create_graph;
  line("const auto " + name + " = torch::autograd::grad({" + names_of(losses) + "}, {" +
       names_of(inputs) + "}, {}, " + (retains ? "true" : "false") + ", " +
       (instruction.create_graph ? "true" : "false") + ", true);");
  for (size_t i = 0; i < instruction.outputs.size(); ++i) {
    const auto element = name + "[" + std::to_string(i) + "]";
    line("const auto " + name_of(instruction.outputs[i]) + " = " + element + ".defined() ? " +
         element + " : torch::zeros_like(" + name_of(inputs[i]) + ");");
  }
}

}  // namespace reprise::fuzz
