// Statements: output, loops, assignments, macros and blocks.
#include "jinja/evaluator.h"

#include "jinja/loop.h"
#include "jinja/macro.h"
#include "jinja/values/objects.h"
#include "jinja/values/repr.h"
#include "jinja/values/unicode.h"

#include <utility>

namespace reprise::jinja {
namespace {

/// Restores a variable when the scope is left.
template <class T>
class Restore {
 public:
  Restore(T& place, T value) : place_(place), old_(std::exchange(place, std::move(value))) {}
  ~Restore() { place_ = std::move(old_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  T& place_;
  T old_;
};

}  // namespace

const Value* Frame::find(Budget& budget, std::string_view name) const {
  for (const Frame* frame = this; frame != nullptr; frame = frame->parent_.get()) {
    budget.step(frame->variables_.size() / kVariablesPerStep);
    for (const auto& [key, value] : frame->variables_) {
      if (is_same_text(budget, key, name)) {
        return &value;
      }
    }
  }
  return nullptr;
}

void Frame::set(Budget& budget, std::string_view name, Value value) {
  budget.step(variables_.size() / kVariablesPerStep);
  for (auto& [key, old] : variables_) {
    if (is_same_text(budget, key, name)) {
      old = std::move(value);
      return;
    }
  }
  add(budget, name, std::move(value));
}

void Frame::add(Budget& budget, std::string_view name, Value value) {
  budget.charge(name.size() + 2 * sizeof(variables_[0]));
  variables_.emplace_back(name, std::move(value));
}

Evaluator::Evaluator(Runtime& runtime, const Value& variables)
    : runtime_(runtime), frame_(std::make_shared<Frame>(nullptr)), output_(runtime) {
  for (const auto& [name, value] : variables.as_dict().entries(runtime)) {
    frame_->add(runtime, name.as_text(runtime), value);
  }
}

template <class Body>
TextBuilder Evaluator::capture(const Body& body) {
  TextBuilder text(runtime_);
  const Restore<TextBuilder*> sink(sink_, &text);
  body();
  return text;
}

template <class Body>
auto Evaluator::scoped(const OwnNames& own, const Body& body) {
  runtime_.charge(sizeof(Frame) + Budget::kObjectOverhead);
  runtime_.step(own.size());
  auto inner = std::make_shared<Frame>(frame_);
  for (const std::string& name : own) {
    inner->add(runtime_, name, runtime_.undefined(quote(name) + " is undefined"));
  }
  const Restore<std::shared_ptr<Frame>> frame(frame_, std::move(inner));
  return body();
}

void Evaluator::render(const Template& tree) {
  scoped(tree.own, [&] { return execute(tree.body); });
}

void Evaluator::write(std::string_view text) {
  if (text.size() >
      runtime_.limits().max_output - std::min(sink_->size(), runtime_.limits().max_output)) {
    throw Failure("writes more than " + std::to_string(runtime_.limits().max_output) +
                  " bytes (TemplateLimits::max_output)");
  }
  runtime_.read(text.size());
  sink_->add(text);
}

void Evaluator::write(const Value& value) {
  const Value text = to_text(runtime_, value);
  write(std::string_view(text.as_text(runtime_)));
}

Flow Evaluator::execute(const Block& block) {
  const Runtime::Nesting nesting(runtime_);
  for (const Statement& statement : block) {
    if (const Flow flow = execute(statement); flow != Flow::Next) {
      return flow;
    }
  }
  return Flow::Next;
}

struct Evaluator::StatementVisitor {
  Evaluator& self;

  Flow operator()(const Text& node) const {
    self.write(node.text);
    return Flow::Next;
  }
  Flow operator()(const Print& node) const {
    self.write(self.evaluate(*node.value));
    return Flow::Next;
  }
  Flow operator()(const Set& node) const {
    self.check_namespaces(node.target);
    self.assign(node.target, self.evaluate(*node.value));
    return Flow::Next;
  }
  Flow operator()(const Macro& node) const {
    self.frame_->set(self.runtime_, node.definition->name, self.define(*node.definition));
    return Flow::Next;
  }
  Flow operator()(const CallBlock& node) const {
    self.execute(node);
    return Flow::Next;
  }
  Flow operator()(const Generation& node) const {
    self.execute(node);
    return Flow::Next;
  }
  Flow operator()(const Break&) const { return Flow::Break; }
  Flow operator()(const Continue&) const { return Flow::Continue; }
  template <class Node>
  Flow operator()(const Node& node) const {
    return self.execute(node);
  }
};

Flow Evaluator::execute(const Statement& statement) {
  runtime_.step();
  line_ = statement.line;
  return std::visit(StatementVisitor{*this}, statement.node);
}

Flow Evaluator::execute(const If& node) {
  for (const auto& [test, body] : node.branches) {
    if (is_true(evaluate(*test))) {
      return execute(*body);
    }
  }
  return node.otherwise ? execute(*node.otherwise) : Flow::Next;
}

Flow Evaluator::execute(const For& node) {
  const Value iterable = evaluate(*node.iterable);
  if (!node.is_recursive) {
    return run_loop(node, iterable, 0, Value());
  }
  // A recursive loop is a function of its items, and its result is written.
  write(recursive_loop(node, iterable, 0, frame_).view());
  return Flow::Next;
}

TextBuilder Evaluator::recursive_loop(const For& node,
                                      const Value& iterable,
                                      int64_t depth,
                                      const std::shared_ptr<Frame>& around) {
  const Runtime::Nesting nesting(runtime_);
  const Restore<std::shared_ptr<Frame>> frame(frame_, around);
  const Value recurse = make_function(
      runtime_, "loop", [this, &node, depth, around](Runtime&, const Arguments& arguments) {
        if (arguments.positional.size() != 1 || !arguments.keyword.empty()) {
          throw Failure("loop() expects the items to loop over");
        }
        return runtime_.text(recursive_loop(node, arguments.positional[0], depth + 1, around));
      });
  return capture([&] { run_loop(node, iterable, depth, recurse); });
}

Flow Evaluator::run_loop(const For& node,
                         const Value& iterable,
                         int64_t depth,
                         const Value& recurse) {
  Loop::Keep keep;
  if (node.condition) {
    keep = [this, &node, around = frame_](const Value& item) {
      const Restore<std::shared_ptr<Frame>> frame(frame_, std::make_shared<Frame>(around));
      assign(node.target, item);
      return is_true(evaluate(*node.condition));
    };
  }
  const auto loop = runtime_.make<Loop>(runtime_, iterable, std::move(keep), depth, recurse);
  const Value variable{std::shared_ptr<Object>(loop)};
  // Like jinja2: `else` is rendered unless some iteration ran to its end without break or continue.
  bool completed = false;
  for (Value item; loop->advance(item);) {
    const Flow flow = run_iteration(node, item, variable);
    if (flow == Flow::Break) {
      break;
    }
    completed = completed || flow == Flow::Next;
  }
  if (completed || node.otherwise.empty()) {
    return Flow::Next;
  }
  return scoped(node.own_otherwise, [&] { return execute(node.otherwise); });
}

Flow Evaluator::run_iteration(const For& node, const Value& item, const Value& loop) {
  return scoped(node.own, [&] {
    frame_->add(runtime_, "loop", loop);
    assign(node.target, item);
    return execute(node.body);
  });
}

Flow Evaluator::execute(const SetBlock& node) {
  Flow flow = Flow::Next;
  const Value value = scoped(node.own, [&] {
    const Value text = runtime_.text(capture([&] { flow = execute(node.body); }));
    return flow == Flow::Next && node.filter ? apply_filters(*node.filter, text) : text;
  });
  if (flow == Flow::Next) {
    check_namespaces(node.target);
    assign(node.target, value);
  }
  return flow;
}

Flow Evaluator::execute(const FilterBlock& node) {
  Flow flow = Flow::Next;
  scoped(node.own, [&] {
    const Value text = runtime_.text(capture([&] { flow = execute(node.body); }));
    if (flow == Flow::Next) {
      write(apply_filters(*node.filter, text));
    }
  });
  return flow;
}

Flow Evaluator::execute(const With& node) {
  std::vector<Value> values;
  values.reserve(node.assignments.size());
  for (const auto& [target, value] : node.assignments) {
    values.push_back(evaluate(*value));
  }
  return scoped(node.own, [&] {
    for (size_t i = 0; i < values.size(); ++i) {
      assign(node.assignments[i].first, values[i]);
    }
    return execute(node.body);
  });
}

void Evaluator::execute(const Generation& node) {
  const TextBuilder text = scoped(node.own, [&] { return capture([&] { execute(node.body); }); });
  runtime_.read(text.size());
  runtime_.charge(2 * sizeof(GeneratedPart));
  generated_.push_back({output_.size(), count_code_points(text.view())});
  write(text.view());
}

void Evaluator::execute(const CallBlock& node) {
  const auto& target = std::get<Call>(node.call->node);
  const Value caller = define(*node.caller);
  const Value callee = evaluate(*target.callee);
  Arguments arguments = evaluate_arguments(target.arguments);
  arguments.keyword.emplace_back("caller", caller);
  write(call(callee, arguments));
}

Value Evaluator::define(const MacroDefinition& definition) {
  return Value(std::shared_ptr<Object>(runtime_.make<MacroFunction>(*this, definition, frame_)));
}

Value Evaluator::run_macro(const MacroDefinition& definition,
                           const std::shared_ptr<Frame>& around,
                           const MacroArguments& arguments) {
  const Runtime::Nesting nesting(runtime_);
  const Restore<std::shared_ptr<Frame>> frame(frame_, around);
  const int calling_line = line_;
  TextBuilder text = scoped(definition.own, [&] {
    for (const auto& [name, value] : arguments.special) {
      frame_->set(runtime_, name, value);
    }
    const size_t required = definition.parameters.size() - definition.defaults.size();
    for (size_t i = 0; i < definition.parameters.size(); ++i) {
      const std::string& name = definition.parameters[i];
      if (arguments.values[i]) {
        frame_->set(runtime_, name, *arguments.values[i]);
      } else if (i >= required) {
        frame_->set(runtime_, name, evaluate(*definition.defaults[i - required]));
      } else {
        frame_->set(
            runtime_, name, runtime_.undefined("parameter " + quote(name) + " was not provided"));
      }
    }
    return capture([&] { execute(definition.body); });
  });
  line_ = calling_line;
  return runtime_.text(std::move(text));
}

void Evaluator::check_namespaces(const Target& target) {
  if (target.kind == Target::Kind::NamespaceAttribute) {
    const Value* found = frame_->find(runtime_, target.name);
    if (found == nullptr || found->as<Namespace>() == nullptr) {
      throw Failure("cannot assign attribute on non-namespace object");
    }
  }
  for (const Target& item : target.items) {
    check_namespaces(item);
  }
}

void Evaluator::assign(const Target& target, const Value& value) {
  if (target.kind == Target::Kind::Name) {
    return frame_->set(runtime_, target.name, value);
  }
  if (target.kind == Target::Kind::NamespaceAttribute) {
    const Value* found = frame_->find(runtime_, target.name);
    return found->as<Namespace>()->set(runtime_, target.attribute, value);
  }
  if (!is_iterable(value)) {
    throw Failure("cannot unpack non-iterable " + value.type_name() + " object");
  }
  const Values items = to_values(runtime_, value);
  const std::string expected = std::to_string(target.items.size());
  if (items.size() > target.items.size()) {
    throw Failure("too many values to unpack (expected " + expected + ")");
  }
  if (items.size() < target.items.size()) {
    throw Failure("not enough values to unpack (expected " + expected + ", got " +
                  std::to_string(items.size()) + ")");
  }
  for (size_t i = 0; i < items.size(); ++i) {
    assign(target.items[i], items[i]);
  }
}

}  // namespace reprise::jinja
