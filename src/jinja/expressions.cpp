// Evaluates expressions.
#include "jinja/builtins/globals.h"
#include "jinja/builtins/methods.h"
#include "jinja/evaluator.h"
#include "jinja/values/attributes.h"
#include "jinja/values/repr.h"

#include <algorithm>

namespace reprise::jinja {

struct Evaluator::ExpressionVisitor {
  Evaluator& self;

  Value operator()(const Literal& node) const { return node.value; }

  Value operator()(const Name& node) const {
    if (const Value* found = self.frame_->find(self.runtime_, node.name)) {
      return *found;
    }
    auto global = find_global(self.runtime_, node.name);
    return global ? *std::move(global)
                  : self.runtime_.undefined(quote(node.name) + " is undefined");
  }

  ItemBuilder all(const Expressions& items) const {
    ItemBuilder values(self.runtime_);
    values.reserve(items.size());
    for (const auto& item : items) {
      values.add(self.evaluate(*item));
    }
    return values;
  }

  Value operator()(const ListLiteral& node) const { return self.runtime_.list(all(node.items)); }
  Value operator()(const TupleLiteral& node) const { return self.runtime_.tuple(all(node.items)); }

  Value operator()(const DictLiteral& node) const {
    Dict dict;
    for (const auto& [key, value] : node.entries) {
      Value evaluated = self.evaluate(*key);
      dict.set(self.runtime_, std::move(evaluated), self.evaluate(*value));
    }
    return self.runtime_.dict(std::move(dict));
  }

  Value operator()(const Attribute& node) const {
    return get_attribute(self.runtime_, self.evaluate(*node.object), node.name);
  }

  Value operator()(const Subscript& node) const {
    const Value object = self.evaluate(*node.object);
    return get_item(self.runtime_, object, self.evaluate(*node.index));
  }

  Value operator()(const Slice& node) const {
    const Value object = self.evaluate(*node.object);
    SliceBounds bounds;
    bounds.start = self.evaluate_optional(node.start);
    bounds.stop = self.evaluate_optional(node.stop);
    bounds.step = self.evaluate_optional(node.step);
    return get_slice(self.runtime_, object, bounds);
  }

  Value operator()(const Call& node) const {
    // A method is called directly, without creating a bound function.
    if (const auto* attribute = std::get_if<Attribute>(&node.callee->node)) {
      const Value object = self.evaluate(*attribute->object);
      if (const Method* method = find_method(object, attribute->name)) {
        return method->apply(self.runtime_, object, self.evaluate_arguments(node.arguments));
      }
      const Value callee = get_attribute(self.runtime_, object, attribute->name);
      return self.call(callee, self.evaluate_arguments(node.arguments));
    }
    const Value callee = self.evaluate(*node.callee);
    return self.call(callee, self.evaluate_arguments(node.arguments));
  }

  Value operator()(const FilterCall& node) const {
    const Value subject = self.evaluate(*node.subject);
    return node.filter->apply(self.runtime_, subject, self.evaluate_arguments(node.arguments));
  }

  Value operator()(const TestCall& node) const {
    const Value subject = self.evaluate(*node.subject);
    return Value(node.test->apply(self.runtime_, subject, self.evaluate_arguments(node.arguments)));
  }

  Value operator()(const Unary& node) const {
    const Value operand = self.evaluate(*node.operand);
    switch (node.op) {
      case UnaryOp::Negate:
        return negate(operand);
      case UnaryOp::Plus:
        return plus(operand);
      default:
        return Value(!is_true(operand));
    }
  }

  Value operator()(const Binary& node) const {
    Value result = self.evaluate(*node.first);
    for (const auto& [op, operand] : node.rest) {
      result = binary(self.runtime_, op, result, self.evaluate(*operand));
    }
    return result;
  }

  Value operator()(const Compare& node) const {
    Value left = self.evaluate(*node.first);
    for (const auto& [op, operand] : node.rest) {
      Value right = self.evaluate(*operand);
      if (!compare(self.runtime_, op, left, right)) {
        return Value(false);
      }
      left = std::move(right);
    }
    return Value(true);
  }

  Value operator()(const Logical& node) const {
    Value result;
    for (const auto& operand : node.operands) {
      result = self.evaluate(*operand);
      if (is_true(result) == (node.op == LogicalOp::Or)) {
        break;
      }
    }
    return result;
  }

  Value operator()(const Concat& node) const {
    TextBuilder result(self.runtime_);
    for (const auto& part : node.parts) {
      write_text(self.runtime_, result, self.evaluate(*part));
    }
    return self.runtime_.text(std::move(result));
  }

  Value operator()(const Conditional& node) const {
    if (is_true(self.evaluate(*node.test))) {
      return self.evaluate(*node.then);
    }
    return node.otherwise ? self.evaluate(*node.otherwise)
                          : self.runtime_.undefined(
                                "the inline if-expression evaluated to false and no "
                                "else section was defined.");
  }
};

Value Evaluator::evaluate(const Expression& expression) {
  const Runtime::Nesting nesting(runtime_);
  runtime_.step();
  line_ = expression.line;
  return std::visit(ExpressionVisitor{*this}, expression.node);
}

Value Evaluator::evaluate_optional(const ExpressionPtr& expression) {
  return expression ? evaluate(*expression) : Value();
}

Arguments Evaluator::evaluate_arguments(const ArgumentList& list) {
  Arguments result;
  ItemBuilder positional(runtime_);
  positional.reserve(list.positional.size());
  for (const auto& argument : list.positional) {
    positional.add(evaluate(*argument));
  }
  const auto add = [&](std::string_view name, Value value) {
    runtime_.step(result.keyword.size());
    for (const auto& entry : result.keyword) {
      if (is_same_text(runtime_, entry.first, name)) {
        throw Failure("got multiple values for keyword argument " + quote(name));
      }
    }
    runtime_.charge(name.size() + 2 * sizeof(result.keyword[0]));
    result.keyword.emplace_back(name, std::move(value));
  };
  for (const auto& [name, argument] : list.keyword) {
    add(name, evaluate(*argument));
  }
  if (list.unpacked) {
    positional.add(to_values(runtime_, evaluate(*list.unpacked)));
  }
  result.positional = positional.take();
  if (list.unpacked_keywords) {
    const Value more = evaluate(*list.unpacked_keywords);
    if (!more.is_dict()) {
      throw Failure("argument after ** must be a mapping, not " + more.type_name());
    }
    for (const auto& [name, value] : more.as_dict().entries(runtime_)) {
      if (!name.is_text()) {
        throw Failure("keywords must be strings");
      }
      add(name.as_text(runtime_), value);
    }
  }
  return result;
}

Value Evaluator::call(const Value& callee, const Arguments& arguments) {
  require_defined(callee);
  if (!callee.is_object()) {
    throw Failure("'" + callee.type_name() + "' object is not callable");
  }
  return callee.as_object().call(runtime_, arguments);
}

Value Evaluator::apply_filters(const Expression& chain, const Value& subject) {
  const Runtime::Nesting nesting(runtime_);
  const auto& node = std::get<FilterCall>(chain.node);
  const Value input = node.subject ? apply_filters(*node.subject, subject) : subject;
  return node.filter->apply(runtime_, input, evaluate_arguments(node.arguments));
}

}  // namespace reprise::jinja
