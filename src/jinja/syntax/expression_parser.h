// Expressions, with jinja2's precedence: or, and, not, comparison, + -, ~, * / // %, **, unary.
#pragma once

#include "jinja/syntax/ast.h"
#include "jinja/syntax/token_stream.h"

#include <string_view>

namespace reprise::jinja {

/// Counts nested expressions and blocks (RAII).
class ParseDepth {
 public:
  ParseDepth(size_t& depth, size_t max_depth, int line);
  ~ParseDepth() { --depth_; }
  ParseDepth(const ParseDepth&) = delete;
  ParseDepth& operator=(const ParseDepth&) = delete;

 private:
  size_t& depth_;
};

class ExpressionParser {
 public:
  ExpressionParser(TokenStream& tokens, size_t max_depth)
      : tokens_(tokens), max_depth_(max_depth) {}

  enum class Inline { Allowed, NotAllowed };  ///< `a if b else c`

  ExpressionPtr expression(Inline conditional = Inline::Allowed);
  /// Comma-separated expressions form a tuple. `end` is a name that ends it.
  ExpressionPtr tuple(Inline conditional = Inline::Allowed, std::string_view end = {});
  enum class FirstBar { Written, Omitted };  ///< omitted in {% filter upper|trim %}
  /// The filter chain of a block; null if there is none.
  ExpressionPtr block_filters(FirstBar first_bar);

  ParseDepth nest() { return {depth_, max_depth_, tokens_.line()}; }

 private:
  ExpressionPtr make(int line, ExpressionNode node) const;
  ExpressionPtr conditional();
  ExpressionPtr logical_or();
  ExpressionPtr logical_and();
  ExpressionPtr logical_not();
  ExpressionPtr comparison();
  bool comparison_operator(CompareOp& op);
  ExpressionPtr sum();
  ExpressionPtr concat();
  ExpressionPtr product();
  ExpressionPtr power();
  enum class Filters { Allowed, NotAllowed };
  ExpressionPtr unary(Filters filters);
  ExpressionPtr primary();
  ExpressionPtr parenthesized();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr node);
  ExpressionPtr subscript(ExpressionPtr object);
  ExpressionPtr slice(ExpressionPtr object, ExpressionPtr start);
  /// The filters, tests and calls that follow a value.
  ExpressionPtr filters(ExpressionPtr subject);
  ExpressionPtr filter(ExpressionPtr subject);  ///< its name and arguments
  ExpressionPtr test(ExpressionPtr subject);
  ArgumentList arguments();
  std::string dotted_name();
  bool is_tuple_end(std::string_view end) const;

  TokenStream& tokens_;
  size_t max_depth_;
  size_t depth_ = 0;
};

}  // namespace reprise::jinja
