// Renders the syntax tree of a template.
//
// Every evaluated node counts as a step and a level of nesting in the Runtime. Variables are looked
// up through parent frames; a macro keeps the frame it was defined in.
#pragma once

#include "jinja/runtime.h"
#include "jinja/syntax/ast.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::jinja {

/// The variables of one scope.
class Frame {
 public:
  explicit Frame(std::shared_ptr<Frame> parent) : parent_(std::move(parent)) {}
  const Value* find(Budget& budget, std::string_view name) const;  ///< here or in an outer frame
  void set(Budget& budget, std::string_view name, Value value);
  /// For a name that this frame does not have.
  void add(Budget& budget, std::string_view name, Value value);

 private:
  static constexpr size_t kVariablesPerStep = 8;  ///< passed in a search
  std::shared_ptr<Frame> parent_;
  std::vector<std::pair<std::string, Value>> variables_;
};

/// How a block ended.
enum class Flow { Next, Break, Continue };

/// A part of the output inside {% generation %}, in the units of transformers: a start position in
/// the output of the template, and a number of characters.
struct GeneratedPart {
  size_t start_byte = 0;
  size_t characters = 0;
};

/// The arguments of a macro call, in the order of its parameters; std::nullopt where absent.
struct MacroArguments {
  std::vector<std::optional<Value>> values;
  std::vector<std::pair<std::string, Value>> special;  ///< caller, kwargs, varargs
};

class Evaluator {
 public:
  /// `variables` is a dict. A variable hides a global function of the same name.
  Evaluator(Runtime& runtime, const Value& variables);

  void render(const Template& tree);
  std::string take_output() { return output_.take(); }
  const std::vector<GeneratedPart>& generated() const { return generated_; }
  int line() const { return line_; }  ///< of what is being evaluated

 private:
  friend class MacroFunction;
  struct ExpressionVisitor;
  struct StatementVisitor;

  // Expressions.
  Value evaluate(const Expression& expression);
  Value evaluate_optional(const ExpressionPtr& expression);
  Arguments evaluate_arguments(const ArgumentList& list);
  Value call(const Value& callee, const Arguments& arguments);
  Value apply_filters(const Expression& chain, const Value& subject);

  // Statements.
  Flow execute(const Block& block);
  Flow execute(const Statement& statement);
  Flow execute(const For& node);
  Flow execute(const If& node);
  Flow execute(const SetBlock& node);
  Flow execute(const FilterBlock& node);
  Flow execute(const With& node);
  void execute(const CallBlock& node);
  void execute(const Generation& node);
  Flow run_loop(const For& node, const Value& iterable, int64_t depth, const Value& recurse);
  TextBuilder recursive_loop(const For& node,
                             const Value& iterable,
                             int64_t depth,
                             const std::shared_ptr<Frame>& around);
  Flow run_iteration(const For& node, const Value& item, const Value& loop);
  Value define(const MacroDefinition& definition);
  Value run_macro(const MacroDefinition& definition,
                  const std::shared_ptr<Frame>& around,
                  const MacroArguments& arguments);

  void assign(const Target& target, const Value& value);
  void check_namespaces(const Target& target);
  void write(std::string_view text);
  void write(const Value& value);

  /// Runs `body` and returns its output instead of writing it.
  template <class Body>
  TextBuilder capture(const Body& body);
  /// Runs `body` in a new frame inside the current one.
  template <class Body>
  auto scoped(const OwnNames& own, const Body& body);

  Runtime& runtime_;
  std::shared_ptr<Frame> frame_;
  TextBuilder output_;            ///< output of the template
  TextBuilder* sink_ = &output_;  ///< where text is written now
  std::vector<GeneratedPart> generated_;
  int line_ = 1;
};

}  // namespace reprise::jinja
