// The generator's state.
//
// Features that `without` can switch off by name: autocast, below, complex, double, enable,
// explicit, failing_backward, grad, group, hook, inference, inner_backward, inner_grad, into, loop,
// nested, parallel, policy, reentrant, risk, sequential, steps, thread, try, twice, values.
// Features that only `with` puts in, because they are beyond what regions can see: thread_effects
// (draws and writes on a thread that a region starts), thread_order (double backward with several
// threads: sums in another order).
#pragma once

#include "fuzz/programs/generate.h"
#include "fuzz/programs/knowledge.h"
#include "fuzz/programs/random.h"

#include <string_view>
#include <vector>

namespace reprise::fuzz {

/// What kind of program it becomes; drawn first.
struct Profile {
  bool is_risky = false;      ///< may do what regions refuse
  bool is_reentrant = false;  ///< its regions are
  bool is_complex = false;
  bool has_autocast = false;
  bool has_threads = false;
  bool has_steps = false;    ///< two training steps
  bool is_parallel = false;  ///< two threads that share nothing
};

class Generator {
 public:
  Generator(uint64_t seed, const GenerateOptions& options);
  Program make();

 private:
  using Body = std::vector<Instruction>;

  // generate.cpp: the program around its statements.
  void draw_profile();
  void add_leaves(char type, bool requires_grad, int count);
  void make_leaves(int explicit_generator);
  void make_model(Body& body);
  void make_losses(Body& body);
  void make_backward(Body& body);
  void make_parallel(Body& body);
  void backward(Body& body, std::vector<Register> losses, bool retain);
  void grad(Body& body, std::vector<Register> losses, bool create_graph, bool retain);

  // statements.cpp: what a body is made of.
  void make_statements(Body& body, int count);
  void make_statement(Body& body);
  bool make_operator(Body& body);
  bool make_row(Body& body, int row);
  bool is_beyond_sight(const Operator& row, const std::vector<Register>& inputs);
  void make_region(Body& body);
  void make_loop(Body& body);
  void make_surrounded(Body& body, Kind kind);
  void make_try(Body& body);
  void make_sequential(Body& body);
  void make_inner_backward(Body& body);

  // choices.cpp: which registers and options.
  bool choose_inputs(const Operator& row, std::vector<Register>& inputs);
  bool may_write(Register target, bool writes_gradient);
  bool is_parameter(Register reg) const;
  bool is_written_by_hooks(Register reg) {
    return known_.of(reg).type == 'n' || known_.of(reg).type == 'g';
  }
  std::vector<Register> candidates(char type);
  std::vector<Register> with_grad();
  Register recent(const std::vector<Register>& list);
  std::vector<Register> choose_results(size_t first_new, int most);
  RegionOptions choose_options(const OpenRegion& region, bool is_reentrant);

  bool can(std::string_view feature) const;
  bool wants(std::string_view feature) const;
  /// Makes an instruction of a row with these inputs, as it is.
  Register place(Body& body,
                 std::string_view name,
                 std::vector<Register> inputs,
                 double number = 1);
  /// Adds the results of a row to what is known, and to the scope.
  void assign_outputs(Instruction& instruction, const Operator& row);

  Random random_;
  const GenerateOptions& options_;
  Program program_;
  Profile profile_;
  Knowledge known_;
  std::vector<Register> scope_;  // what can be read here, oldest first
  std::vector<Register> losses_;
  bool has_grad_mode_ = true;
  int explicit_generator_ = kDefaultGenerator;  // in a parallel block, the only one allowed
  bool may_draw_default_ = true;
  bool may_hook_ = true;
  bool may_call_backward_ = true;
  int budget_ = 45;  // of instructions
  int loops_ = 0;
  bool is_on_thread_of_region_ = false;
  bool is_below_autograd_ = false;
  int blocks_ = 0;  // how many blocks are open: limits their nesting
};

}  // namespace reprise::fuzz
