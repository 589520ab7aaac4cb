// The operators that programs are made of. A row is written once: what it computes is also its text
// in a printed program.
//
// Types of registers are letters, with R rows, D columns and H = D / 2:
//   a [R, D]   w [D, D]   v [D]   s []   h [R, H]   t [D, R]   b [2, R, H]   of the program's dtype
//   i [R] int64 below D   m [R, D] bool
//   n [] int64 and g [] double, which only hooks write
// In a signature, x is any one of the floating types, the same everywhere.
#pragma once

#include "fuzz/programs/program.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

namespace reprise::fuzz {

using Tensors = std::vector<at::Tensor>;

/// What an operator is called with. The names are those that a row's text uses.
struct Call {
  const Instruction& instruction;
  const std::vector<at::Tensor>& registers;
  std::optional<at::Generator> generator;
  int64_t rows;
  int64_t columns;
  at::TensorOptions options;

  const at::Tensor& input(size_t index) const {
    return registers[static_cast<size_t>(instruction.inputs[index])];
  }
};

enum OperatorFlag : unsigned {
  kComplex = 1U << 0,             ///< also for complex tensors
  kMatmul = 1U << 1,              ///< a matrix product, to save_matmuls
  kView = 1U << 2,                ///< the result shares memory with input 0
  kManyViews = 1U << 3,           ///< a view that must not be written: one of several, or expanded
  kDetached = 1U << 4,            ///< the result has no gradient
  kWrites = 1U << 5,              ///< changes input 0
  kOverwrites = 1U << 6,          ///< changes input 0 and does not read it
  kRandom = 1U << 7,              ///< draws, from the default generator unless one is given
  kExplicit = 1U << 8,            ///< a random operator that takes a generator
  kNeedsGrad = 1U << 9,           ///< input 0 must require grad
  kUpdatesStatistics = 1U << 10,  ///< changes inputs 3 and 4
  kUnhashable = 1U << 17,         ///< saves bytes that it never sets, so not for Values
  kAlwaysExplicit = 1U << 19,     ///< draws from an explicit generator or not at all
  kDirect = 1U << 20,             ///< draws without an operator: the region must list the generator
  kEffectful = 1U << 21,          ///< must run as often as without regions
  kLeafOnly = 1U << 18,           ///< input 0 must be a parameter
  kReadsStatistics = 1U << 16,    ///< inputs 3 and 4 must have no gradient
  kNotReentrant = 1U << 11,       ///< computes otherwise in no-grad mode
  kRare = 1U << 12,
  kCommon = 1U << 13,
  kRisky = 1U << 14,     ///< regions refuse it in many places
  kNoWeight = 1U << 15,  ///< never drawn; placed by the generator's own rules
};

struct Operator {
  std::string_view name;
  std::string_view signature;  ///< such as "aw>a"; nothing after '>': a statement
  unsigned flags;
  std::string_view saves;  ///< which inputs autograd saves, by digit; 'o': its result
  std::string_view aten;   ///< for save_ops; empty: not to be named
  Tensors (*run)(const Call&);
  std::string_view text;

  bool has(unsigned flag) const { return (flags & flag) != 0; }
  std::string_view input_types() const { return signature.substr(0, signature.find('>')); }
  std::string_view output_types() const { return signature.substr(signature.find('>') + 1); }
};

/// All rows.
const std::vector<Operator>& operators();
/// The row with that name.
int operator_named(std::string_view name);

/// Their parts.
std::vector<Operator> math_operators();
std::vector<Operator> layer_operators();
std::vector<Operator> view_operators();
std::vector<Operator> write_operators();
std::vector<Operator> random_operators();
std::vector<Operator> effect_operators();
std::vector<Operator> hook_operators();

/// Shape of a register of that type.
std::vector<int64_t> shape_of(char type, int64_t rows, int64_t columns);

inline Tensors outputs_of(at::Tensor tensor) {
  return {std::move(tensor)};
}
inline Tensors outputs_of(Tensors tensors) {
  return tensors;
}

}  // namespace reprise::fuzz

/// A row. The last argument is an expression over x(i), num, k, gen, R, D, H and options.
#define REPRISE_FUZZ_ROW(NAME, SIGNATURE, FLAGS, SAVES, ATEN, ...)                 \
  ::reprise::fuzz::Operator {                                                      \
    NAME, SIGNATURE, FLAGS, SAVES, ATEN,                                           \
        [](const ::reprise::fuzz::Call& call) -> ::reprise::fuzz::Tensors {        \
          [[maybe_unused]] const auto x = [&call](size_t i) -> const at::Tensor& { \
            return call.input(i);                                                  \
          };                                                                       \
          [[maybe_unused]] const double num = call.instruction.number;             \
          [[maybe_unused]] const int64_t k = call.instruction.integer;             \
          [[maybe_unused]] const auto& gen = call.generator;                       \
          [[maybe_unused]] const int64_t R = call.rows;                            \
          [[maybe_unused]] const int64_t D = call.columns;                         \
          [[maybe_unused]] const int64_t H = call.columns / 2;                     \
          [[maybe_unused]] const auto& options = call.options;                     \
          return ::reprise::fuzz::outputs_of(__VA_ARGS__);                         \
        },                                                                         \
        #__VA_ARGS__                                                               \
  }
