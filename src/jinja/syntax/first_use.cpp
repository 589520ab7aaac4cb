// The first use of a name.
#include "jinja/syntax/first_use.h"

#include "jinja/syntax/walk.h"

namespace reprise::jinja {
namespace {

class FirstUse {
 public:
  explicit FirstUse(std::string name) : name_(std::move(name)) {}

  bool is_read(const Block& body) {
    block(body);
    return first_ == First::Read;
  }

  void operator()(const Text&) {}
  void operator()(const Break&) {}
  void operator()(const Continue&) {}
  void operator()(const Print& node) { expression(node.value); }
  void operator()(const Generation& node) { block(node.body); }
  void operator()(const For& node) {
    target(node.target);
    expression(node.iterable);
    block(node.body);
    block(node.otherwise);
    expression(node.condition);
  }
  void operator()(const If& node) {
    for (const auto& [test, body] : node.branches) {
      expression(test);
      block(*body);
    }
    if (node.otherwise) {
      block(*node.otherwise);
    }
  }
  void operator()(const Set& node) {
    target(node.target);
    expression(node.value);
  }
  void operator()(const SetBlock& node) {
    target(node.target);
    expression(node.filter);
    block(node.body);
  }
  void operator()(const Macro& node) { macro(*node.definition); }
  void operator()(const CallBlock& node) {
    expression(node.call);
    macro(*node.caller);
  }
  void operator()(const FilterBlock& node) {
    block(node.body);
    expression(node.filter);
  }
  void operator()(const With& node) {
    for (const auto& [target, value] : node.assignments) {
      this->target(target);
    }
    for (const auto& [target, value] : node.assignments) {
      expression(value);
    }
    block(node.body);
  }

 private:
  enum class First { None, Read, Assigned };

  void found(const std::string& name, First how) {
    if (first_ == First::None && name == name_) {
      first_ = how;
    }
  }

  void block(const Block& statements) {
    for (const Statement& statement : statements) {
      std::visit(*this, statement.node);
    }
  }

  void macro(const MacroDefinition& macro) {
    for (const std::string& parameter : macro.parameters) {
      found(parameter, First::Assigned);
    }
    for (const auto& value : macro.defaults) {
      expression(value);
    }
    block(macro.body);
  }

  void target(const Target& target) {
    if (target.kind == Target::Kind::Name) {
      found(target.name, First::Assigned);
    }
    for (const Target& item : target.items) {
      this->target(item);
    }
  }

  void expression(const ExpressionPtr& expression) {
    if (expression) {
      names(*expression);
    }
  }

  void names(const Expression& expression) {
    if (const auto* name = std::get_if<Name>(&expression.node)) {
      found(name->name, First::Read);
    }
    for_each_child(expression, [&](const Expression& child) { names(child); });
  }

  std::string name_;
  First first_ = First::None;
};

}  // namespace

bool reads_before_assigning(const Block& body, std::string_view name) {
  return FirstUse(std::string(name)).is_read(body);
}

}  // namespace reprise::jinja
