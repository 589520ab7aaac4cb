// Operands of expressions: literals, names, brackets, and their suffixes (attributes, items, calls,
// filters and tests).
#include "jinja/syntax/expression_parser.h"

namespace reprise::jinja {

ExpressionPtr ExpressionParser::primary() {
  const Token& token = tokens_.current();
  const int line = token.line;
  switch (token.kind) {
    case TokenKind::Name: {
      const std::string& name = tokens_.take().text;
      if (name == "true" || name == "True") {
        return make(line, Literal{Value(true)});
      }
      if (name == "false" || name == "False") {
        return make(line, Literal{Value(false)});
      }
      if (name == "none" || name == "None") {
        return make(line, Literal{Value()});
      }
      return make(line, Name{name});
    }
    case TokenKind::String: {
      std::string text;
      while (tokens_.current().kind == TokenKind::String) {
        text += tokens_.take().text;
      }
      return make(line, Literal{Value::literal(std::move(text))});
    }
    case TokenKind::Integer:
      return make(line, Literal{Value(tokens_.take().integer)});
    case TokenKind::Float:
      return make(line, Literal{Value(tokens_.take().number)});
    default:
      break;
  }
  if (tokens_.skip_operator("(")) {
    return parenthesized();
  }
  if (tokens_.skip_operator("[")) {
    return list();
  }
  if (tokens_.skip_operator("{")) {
    return dict();
  }
  tokens_.fail_expected("an expression");
}

ExpressionPtr ExpressionParser::parenthesized() {
  const int line = tokens_.line();
  ExpressionPtr node = tokens_.current().is_operator(")") ? make(line, TupleLiteral{}) : tuple();
  tokens_.expect_operator(")");
  return node;
}

ExpressionPtr ExpressionParser::list() {
  const int line = tokens_.line();
  ListLiteral node;
  while (!tokens_.skip_operator("]")) {
    node.items.push_back(expression());
    if (!tokens_.skip_operator(",") && !tokens_.current().is_operator("]")) {
      tokens_.fail_expected("]");
    }
  }
  return make(line, std::move(node));
}

ExpressionPtr ExpressionParser::dict() {
  const int line = tokens_.line();
  DictLiteral node;
  while (!tokens_.skip_operator("}")) {
    ExpressionPtr key = expression();
    tokens_.expect_operator(":");
    node.entries.emplace_back(std::move(key), expression());
    if (!tokens_.skip_operator(",") && !tokens_.current().is_operator("}")) {
      tokens_.fail_expected("}");
    }
  }
  return make(line, std::move(node));
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr node) {
  while (true) {
    const Token& token = tokens_.current();
    if (token.is_operator("(")) {
      const int line = token.line;
      node = make(line, Call{std::move(node), arguments()});
    } else if (token.is_operator(".") || token.is_operator("[")) {
      node = subscript(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr object) {
  const int line = tokens_.line();
  if (tokens_.skip_operator(".")) {
    const Token& token = tokens_.take();
    if (token.kind == TokenKind::Name) {
      return make(line, Attribute{std::move(object), token.text});
    }
    if (token.kind != TokenKind::Integer) {
      throw Failure("expected a name or a number after '.', found '" + describe(token) + "'", line);
    }
    return make(line, Subscript{std::move(object), make(line, Literal{Value(token.integer)})});
  }
  tokens_.expect_operator("[");
  if (tokens_.current().is_operator(":")) {
    return slice(std::move(object), nullptr);
  }
  TupleLiteral indices;
  while (!tokens_.current().is_operator("]")) {
    if (!indices.items.empty()) {
      tokens_.expect_operator(",");
    }
    ExpressionPtr index = expression();
    if (indices.items.empty() && tokens_.current().is_operator(":")) {
      return slice(std::move(object), std::move(index));
    }
    indices.items.push_back(std::move(index));
  }
  tokens_.expect_operator("]");
  ExpressionPtr index =
      indices.items.size() == 1 ? std::move(indices.items[0]) : make(line, std::move(indices));
  return make(line, Subscript{std::move(object), std::move(index)});
}

ExpressionPtr ExpressionParser::slice(ExpressionPtr object, ExpressionPtr start) {
  const int line = tokens_.line();
  Slice node;
  node.object = std::move(object);
  node.start = std::move(start);
  tokens_.expect_operator(":");
  if (!tokens_.current().is_operator(":") && !tokens_.current().is_operator("]")) {
    node.stop = expression();
  }
  if (tokens_.skip_operator(":") && !tokens_.current().is_operator("]")) {
    node.step = expression();
  }
  tokens_.expect_operator("]");
  return make(line, std::move(node));
}

ArgumentList ExpressionParser::arguments() {
  ArgumentList result;
  tokens_.expect_operator("(");
  const int line = tokens_.line();
  const auto require = [&](bool in_order) {
    if (!in_order) {
      throw Failure("arguments out of order: positional, then named, then *, then **", line);
    }
  };
  while (!tokens_.skip_operator(")")) {
    if (tokens_.skip_operator("*")) {
      require(!result.unpacked && !result.unpacked_keywords);
      result.unpacked = expression();
    } else if (tokens_.skip_operator("**")) {
      require(!result.unpacked_keywords);
      result.unpacked_keywords = expression();
    } else if (tokens_.current().kind == TokenKind::Name && tokens_.look_ahead().is_operator("=")) {
      require(!result.unpacked_keywords);
      std::string name = tokens_.take().text;
      tokens_.take();
      result.keyword.emplace_back(std::move(name), expression());
    } else {
      require(!result.unpacked && !result.unpacked_keywords && result.keyword.empty());
      result.positional.push_back(expression());
    }
    if (!tokens_.skip_operator(",") && !tokens_.current().is_operator(")")) {
      tokens_.fail_expected(")");
    }
  }
  return result;
}

std::string ExpressionParser::dotted_name() {
  std::string name = tokens_.expect_any_name();
  while (tokens_.skip_operator(".")) {
    name += "." + tokens_.expect_any_name();
  }
  return name;
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr subject) {
  const int line = tokens_.line();
  const std::string name = dotted_name();
  FilterCall node;
  node.subject = std::move(subject);
  node.filter = find_filter(name);
  if (node.filter == nullptr) {
    throw Failure("No filter named '" + name + "'.", line);
  }
  if (tokens_.current().is_operator("(")) {
    node.arguments = arguments();
  }
  return make(line, std::move(node));
}

ExpressionPtr ExpressionParser::block_filters(FirstBar first_bar) {
  ExpressionPtr chain = first_bar == FirstBar::Omitted ? filter(nullptr) : nullptr;
  while (tokens_.skip_operator("|")) {
    chain = filter(std::move(chain));
  }
  return chain;
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr subject) {
  while (true) {
    const int line = tokens_.line();
    if (tokens_.skip_operator("|")) {
      subject = filter(std::move(subject));
    } else if (tokens_.skip_name("is")) {
      subject = test(std::move(subject));
    } else if (tokens_.current().is_operator("(")) {
      subject = make(line, Call{std::move(subject), arguments()});
    } else {
      return subject;
    }
  }
}

ExpressionPtr ExpressionParser::test(ExpressionPtr subject) {
  const int line = tokens_.line();
  const bool is_negated = tokens_.skip_name("not");
  const std::string name = dotted_name();
  TestCall node;
  node.subject = std::move(subject);
  node.test = find_test(name);
  if (node.test == nullptr) {
    throw Failure("No test named '" + name + "'.", line);
  }
  const Token& token = tokens_.current();
  const bool is_value = token.kind == TokenKind::Name || token.kind == TokenKind::String ||
                        token.kind == TokenKind::Integer || token.kind == TokenKind::Float ||
                        token.is_operator("[") || token.is_operator("{");
  if (token.is_operator("(")) {
    node.arguments = arguments();
  } else if (token.is_name("is")) {
    throw Failure("You cannot chain multiple tests with is", line);
  } else if (is_value && !token.is_name("else") && !token.is_name("or") && !token.is_name("and")) {
    node.arguments.positional.push_back(postfix(primary()));
  }
  ExpressionPtr result = make(line, std::move(node));
  return is_negated ? make(line, Unary{UnaryOp::Not, std::move(result)}) : std::move(result);
}

}  // namespace reprise::jinja
