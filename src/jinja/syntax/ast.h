// The syntax tree of a template: statements and expressions, from the parser for the evaluator.
//
// Chains that can be long (a + b + c, elif) are flat lists, so that the depth of the tree is the
// nesting that the parser bounds, and destruction recurses no deeper.
#pragma once

#include "jinja/builtins/filters.h"
#include "jinja/builtins/tests.h"
#include "jinja/values/operators.h"
#include "jinja/values/value.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace reprise::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;
using Expressions = std::vector<ExpressionPtr>;

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListLiteral {
  Expressions items;
};
struct TupleLiteral {
  Expressions items;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Subscript {
  ExpressionPtr object;
  ExpressionPtr index;
};
/// x[start:stop:step]; omitted parts are null.
struct Slice {
  ExpressionPtr object;
  ExpressionPtr start, stop, step;
};
struct ArgumentList {
  Expressions positional;
  std::vector<std::pair<std::string, ExpressionPtr>> keyword;
  ExpressionPtr unpacked;           ///< *x
  ExpressionPtr unpacked_keywords;  ///< **x
};
struct Call {
  ExpressionPtr callee;
  ArgumentList arguments;
};
struct FilterCall {
  ExpressionPtr subject;  ///< null: the text of the filtered block
  const Filter* filter = nullptr;
  ArgumentList arguments;
};
struct TestCall {
  ExpressionPtr subject;
  const Test* test = nullptr;
  ArgumentList arguments;
};
enum class UnaryOp { Negate, Plus, Not };
struct Unary {
  UnaryOp op;
  ExpressionPtr operand;
};
struct Binary {
  ExpressionPtr first;
  std::vector<std::pair<BinaryOp, ExpressionPtr>> rest;
};
struct Compare {
  ExpressionPtr first;
  std::vector<std::pair<CompareOp, ExpressionPtr>> rest;
};
enum class LogicalOp { And, Or };
struct Logical {
  LogicalOp op;
  Expressions operands;
};
struct Concat {
  Expressions parts;
};
struct Conditional {
  ExpressionPtr test;
  ExpressionPtr then;
  ExpressionPtr otherwise;  ///< may be null
};

using ExpressionNode = std::variant<Literal,
                                    Name,
                                    ListLiteral,
                                    TupleLiteral,
                                    DictLiteral,
                                    Attribute,
                                    Subscript,
                                    Slice,
                                    Call,
                                    FilterCall,
                                    TestCall,
                                    Unary,
                                    Binary,
                                    Compare,
                                    Logical,
                                    Concat,
                                    Conditional>;

struct Expression {
  int line = 0;
  size_t depth = 1;  ///< of the subtree
  ExpressionNode node;
};

/// An assignment target: a name, an attribute of a namespace, or a tuple of these.
struct Target {
  enum class Kind { Name, NamespaceAttribute, Tuple };
  Kind kind = Kind::Name;
  int line = 0;
  std::string name;
  std::string attribute;
  std::vector<Target> items;
};

struct Statement;
using Block = std::vector<Statement>;

/// Names that a scope owns from its start because it assigns them: see Note [Scopes].
using OwnNames = std::vector<std::string>;

struct Text {
  std::string text;
};
struct Print {
  ExpressionPtr value;
};
struct For {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr condition;  ///< may be null
  Block body;
  Block otherwise;
  bool is_recursive = false;
  OwnNames own, own_otherwise;
};
struct If {
  std::vector<std::pair<ExpressionPtr, std::unique_ptr<Block>>> branches;
  std::unique_ptr<Block> otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr filter;  ///< a chain of FilterCalls, or null
  Block body;
  OwnNames own;
};
struct MacroDefinition {
  std::string name;
  std::vector<std::string> parameters;
  Expressions defaults;  ///< for the last parameters
  Block body;
  OwnNames own;
  // Which special names the body reads without assigning them first.
  bool uses_caller = false;
  bool uses_kwargs = false;
  bool uses_varargs = false;
};
struct Macro {
  std::unique_ptr<MacroDefinition> definition;
};
struct CallBlock {
  ExpressionPtr call;  ///< a Call
  std::unique_ptr<MacroDefinition> caller;
};
struct FilterBlock {
  ExpressionPtr filter;
  Block body;
  OwnNames own;
};
struct Generation {
  Block body;
  OwnNames own;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  Block body;
  OwnNames own;
};
struct Break {};
struct Continue {};

struct Statement {
  int line = 0;
  std::variant<Text,
               Print,
               For,
               If,
               Set,
               SetBlock,
               Macro,
               CallBlock,
               FilterBlock,
               Generation,
               With,
               Break,
               Continue>
      node;
};

struct Template {
  Block body;
  OwnNames own;
  bool marks_generation = false;
};

}  // namespace reprise::jinja
