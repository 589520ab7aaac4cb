// Visits the direct child expressions of an expression, in evaluation order.
#pragma once

#include "jinja/syntax/ast.h"

namespace reprise::jinja {

template <class Visit>
void for_each_child(const ArgumentList& arguments, const Visit& visit) {
  for (const auto& argument : arguments.positional) {
    visit(*argument);
  }
  for (const auto& [name, argument] : arguments.keyword) {
    visit(*argument);
  }
  for (const auto* argument : {&arguments.unpacked, &arguments.unpacked_keywords}) {
    if (*argument) {
      visit(**argument);
    }
  }
}

template <class Visit>
class ChildVisitor {
 public:
  explicit ChildVisitor(const Visit& visit) : visit_(visit) {}

  void operator()(const Literal&) const {}
  void operator()(const Name&) const {}
  void operator()(const ListLiteral& node) const { all(node.items); }
  void operator()(const TupleLiteral& node) const { all(node.items); }
  void operator()(const DictLiteral& node) const {
    for (const auto& [key, value] : node.entries) {
      one(key);
      one(value);
    }
  }
  void operator()(const Attribute& node) const { one(node.object); }
  void operator()(const Subscript& node) const {
    one(node.object);
    one(node.index);
  }
  void operator()(const Slice& node) const {
    one(node.object);
    one(node.start);
    one(node.stop);
    one(node.step);
  }
  void operator()(const Call& node) const {
    one(node.callee);
    for_each_child(node.arguments, visit_);
  }
  void operator()(const FilterCall& node) const {
    one(node.subject);
    for_each_child(node.arguments, visit_);
  }
  void operator()(const TestCall& node) const {
    one(node.subject);
    for_each_child(node.arguments, visit_);
  }
  void operator()(const Unary& node) const { one(node.operand); }
  void operator()(const Binary& node) const { chain(node); }
  void operator()(const Compare& node) const { chain(node); }
  void operator()(const Logical& node) const { all(node.operands); }
  void operator()(const Concat& node) const { all(node.parts); }
  void operator()(const Conditional& node) const {
    one(node.test);
    one(node.then);
    one(node.otherwise);
  }

 private:
  void one(const ExpressionPtr& child) const {
    if (child) {
      visit_(*child);
    }
  }
  void all(const Expressions& children) const {
    for (const auto& child : children) {
      one(child);
    }
  }
  template <class Node>
  void chain(const Node& node) const {
    one(node.first);
    for (const auto& [op, child] : node.rest) {
      one(child);
    }
  }

  const Visit& visit_;
};

template <class Visit>
void for_each_child(const Expression& expression, const Visit& visit) {
  std::visit(ChildVisitor<Visit>(visit), expression.node);
}

}  // namespace reprise::jinja
