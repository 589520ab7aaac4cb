// Recursive-descent parser for expressions, one function per level of precedence.
#include "jinja/syntax/expression_parser.h"

#include "jinja/syntax/walk.h"

#include <algorithm>

namespace reprise::jinja {
namespace {

[[noreturn]] void fail_depth(size_t max_depth, int line) {
  throw Failure(
      "nested more than " + std::to_string(max_depth) + " deep (TemplateLimits::max_depth)", line);
}

}  // namespace

ParseDepth::ParseDepth(size_t& depth, size_t max_depth, int line) : depth_(depth) {
  if (depth >= max_depth) {
    fail_depth(max_depth, line);
  }
  ++depth_;
}

ExpressionPtr ExpressionParser::make(int line, ExpressionNode node) const {
  auto expression = std::make_unique<Expression>();
  expression->line = line;
  expression->node = std::move(node);
  for_each_child(*expression, [&](const Expression& child) {
    expression->depth = std::max(expression->depth, child.depth + 1);
  });
  if (expression->depth > max_depth_) {
    fail_depth(max_depth_, line);
  }
  return expression;
}

bool ExpressionParser::is_tuple_end(std::string_view end) const {
  const Token& token = tokens_.current();
  return token.kind == TokenKind::VariableEnd || token.kind == TokenKind::BlockEnd ||
         token.is_operator(")") || (!end.empty() && token.is_name(end));
}

ExpressionPtr ExpressionParser::tuple(Inline conditional, std::string_view end) {
  const int line = tokens_.line();
  TupleLiteral tuple;
  bool is_tuple = false;
  while (!is_tuple_end(end)) {
    tuple.items.push_back(expression(conditional));
    if (!tokens_.skip_operator(",")) {
      break;
    }
    is_tuple = true;
  }
  if (is_tuple) {
    return make(line, std::move(tuple));
  }
  if (tuple.items.empty()) {
    tokens_.fail_expected("an expression");
  }
  return std::move(tuple.items.front());
}

ExpressionPtr ExpressionParser::expression(Inline conditional) {
  const ParseDepth depth = nest();
  return conditional == Inline::Allowed ? this->conditional() : logical_or();
}

ExpressionPtr ExpressionParser::conditional() {
  ExpressionPtr result = logical_or();
  while (tokens_.current().is_name("if")) {
    const int line = tokens_.line();
    tokens_.take();
    Conditional node;
    node.then = std::move(result);
    node.test = logical_or();
    if (tokens_.skip_name("else")) {
      node.otherwise = expression();
    }
    result = make(line, std::move(node));
  }
  return result;
}

ExpressionPtr ExpressionParser::logical_or() {
  const int line = tokens_.line();
  Logical node{LogicalOp::Or, {}};
  do {
    node.operands.push_back(logical_and());
  } while (tokens_.skip_name("or"));
  return node.operands.size() == 1 ? std::move(node.operands[0]) : make(line, std::move(node));
}

ExpressionPtr ExpressionParser::logical_and() {
  const int line = tokens_.line();
  Logical node{LogicalOp::And, {}};
  do {
    node.operands.push_back(logical_not());
  } while (tokens_.skip_name("and"));
  return node.operands.size() == 1 ? std::move(node.operands[0]) : make(line, std::move(node));
}

ExpressionPtr ExpressionParser::logical_not() {
  const int line = tokens_.line();
  if (!tokens_.skip_name("not")) {
    return comparison();
  }
  const ParseDepth depth = nest();
  return make(line, Unary{UnaryOp::Not, logical_not()});
}

bool ExpressionParser::comparison_operator(CompareOp& op) {
  static constexpr std::pair<std::string_view, CompareOp> kOperators[] = {
      {"==", CompareOp::Equal},
      {"!=", CompareOp::NotEqual},
      {"<", CompareOp::Less},
      {"<=", CompareOp::LessEqual},
      {">", CompareOp::Greater},
      {">=", CompareOp::GreaterEqual},
  };
  for (const auto& [symbol, meaning] : kOperators) {
    if (tokens_.skip_operator(symbol)) {
      op = meaning;
      return true;
    }
  }
  if (tokens_.skip_name("in")) {
    op = CompareOp::In;
    return true;
  }
  if (tokens_.current().is_name("not") && tokens_.look_ahead().is_name("in")) {
    tokens_.take();
    tokens_.take();
    op = CompareOp::NotIn;
    return true;
  }
  return false;
}

ExpressionPtr ExpressionParser::comparison() {
  const int line = tokens_.line();
  Compare node;
  node.first = sum();
  for (CompareOp op{}; comparison_operator(op);) {
    node.rest.emplace_back(op, sum());
  }
  return node.rest.empty() ? std::move(node.first) : make(line, std::move(node));
}

ExpressionPtr ExpressionParser::sum() {
  const int line = tokens_.line();
  Binary node;
  node.first = concat();
  while (true) {
    if (tokens_.skip_operator("+")) {
      node.rest.emplace_back(BinaryOp::Add, concat());
    } else if (tokens_.skip_operator("-")) {
      node.rest.emplace_back(BinaryOp::Subtract, concat());
    } else {
      return node.rest.empty() ? std::move(node.first) : make(line, std::move(node));
    }
  }
}

ExpressionPtr ExpressionParser::concat() {
  const int line = tokens_.line();
  Concat node;
  do {
    node.parts.push_back(product());
  } while (tokens_.skip_operator("~"));
  return node.parts.size() == 1 ? std::move(node.parts[0]) : make(line, std::move(node));
}

ExpressionPtr ExpressionParser::product() {
  static constexpr std::pair<std::string_view, BinaryOp> kOperators[] = {
      {"*", BinaryOp::Multiply},
      {"/", BinaryOp::Divide},
      {"//", BinaryOp::FloorDivide},
      {"%", BinaryOp::Modulo},
  };
  const int line = tokens_.line();
  Binary node;
  node.first = power();
  for (bool found = true; found;) {
    found = false;
    for (const auto& [symbol, op] : kOperators) {
      if (tokens_.skip_operator(symbol)) {
        node.rest.emplace_back(op, power());
        found = true;
        break;
      }
    }
  }
  return node.rest.empty() ? std::move(node.first) : make(line, std::move(node));
}

// Unlike in Python, jinja2's ** is left-associative and binds weaker than unary minus: -2**2 is 4.
ExpressionPtr ExpressionParser::power() {
  const int line = tokens_.line();
  Binary node;
  node.first = unary(Filters::Allowed);
  while (tokens_.skip_operator("**")) {
    node.rest.emplace_back(BinaryOp::Power, unary(Filters::Allowed));
  }
  return node.rest.empty() ? std::move(node.first) : make(line, std::move(node));
}

ExpressionPtr ExpressionParser::unary(Filters filters_follow) {
  const ParseDepth depth = nest();
  const int line = tokens_.line();
  ExpressionPtr node;
  if (tokens_.skip_operator("-")) {
    node = make(line, Unary{UnaryOp::Negate, unary(Filters::NotAllowed)});
  } else if (tokens_.skip_operator("+")) {
    node = make(line, Unary{UnaryOp::Plus, unary(Filters::NotAllowed)});
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return filters_follow == Filters::Allowed ? filters(std::move(node)) : std::move(node);
}

}  // namespace reprise::jinja
