// Parses statements.
#include "jinja/syntax/parser.h"

#include "jinja/scopes.h"
#include "jinja/syntax/expression_parser.h"

#include <algorithm>
#include <initializer_list>

namespace reprise::jinja {
namespace {

bool is_constant_name(std::string_view name) {
  return name == "true" || name == "false" || name == "none" || name == "True" || name == "False" ||
         name == "None";
}

class Parser {
 public:
  Parser(std::string_view source, size_t max_depth)
      : tokens_(tokenize(source)), expressions_(tokens_, max_depth) {}

  Template run() {
    Template result;
    result.body = statements({});
    result.marks_generation = marks_generation_;
    return result;
  }

 private:
  using EndNames = std::initializer_list<std::string_view>;

  bool at_end_tag(EndNames ends) const {
    return std::any_of(
        ends.begin(), ends.end(), [&](auto name) { return tokens_.current().is_name(name); });
  }

  // Parses up to a tag whose name is one of `ends`, and stops at that name.
  Block statements(EndNames ends) {
    const ParseDepth depth = expressions_.nest();
    Block block;
    while (tokens_.current().kind != TokenKind::End) {
      const int line = tokens_.line();
      if (tokens_.current().kind == TokenKind::Data) {
        block.push_back({line, Text{tokens_.take().text}});
      } else if (tokens_.current().kind == TokenKind::VariableBegin) {
        tokens_.take();
        block.push_back({line, Print{expressions_.tuple()}});
        tokens_.expect(TokenKind::VariableEnd);
      } else {
        tokens_.expect(TokenKind::BlockBegin);
        if (at_end_tag(ends)) {
          return block;
        }
        statement(block, ends);
        tokens_.expect(TokenKind::BlockEnd);
      }
    }
    if (ends.size() != 0) {
      tokens_.fail_expected(*(ends.end() - 1));
    }
    return block;
  }

  // Parses the body after the tag of a statement, and stops at one of the names.
  Block body(EndNames ends) {
    tokens_.skip_operator(":");
    tokens_.expect(TokenKind::BlockEnd);
    return statements(ends);
  }

  Block body_until(std::string_view end) {
    Block result = body({end});
    tokens_.take();
    return result;
  }

  void statement(Block& block, EndNames ends) {
    const int line = tokens_.line();
    const std::string name = tokens_.expect_any_name();
    if (name == "for") {
      block.push_back({line, for_loop()});
    } else if (name == "if") {
      block.push_back({line, if_chain()});
    } else if (name == "set") {
      set(block, line);
    } else if (name == "macro") {
      block.push_back({line, macro()});
    } else if (name == "call") {
      block.push_back({line, call_block(line)});
    } else if (name == "filter") {
      block.push_back({line, filter_block()});
    } else if (name == "generation") {
      block.push_back({line, generation()});
    } else if (name == "with") {
      block.push_back({line, with()});
    } else if (name == "print") {
      print(block, line);
    } else if (name == "break" || name == "continue") {
      loop_control(block, line, name);
    } else {
      refuse(name, line, ends);
    }
  }

  [[noreturn]] static void refuse(const std::string& name, int line, EndNames ends) {
    static constexpr std::string_view kOtherFiles[] = {"include", "import", "from", "extends"};
    if (std::find(std::begin(kOtherFiles), std::end(kOtherFiles), name) != std::end(kOtherFiles)) {
      throw Failure("{% " + name + " %} needs other templates; a chat template stands alone", line);
    }
    if (name == "block" || name == "autoescape") {
      throw Failure("{% " + name + " %} is not supported in a chat template", line);
    }
    std::string message = "Encountered unknown tag '" + name + "'.";
    if (ends.size() != 0) {
      message += " Expected is '" + std::string(*(ends.end() - 1)) + "'.";
    }
    throw Failure(message, line);
  }

  Target name_target() {
    Target target;
    target.line = tokens_.line();
    target.name = tokens_.expect_any_name();
    if (is_constant_name(target.name)) {
      throw Failure("can't assign to '" + target.name + "'", target.line);
    }
    return target;
  }

  enum class Attributes { Allowed, NotAllowed };

  Target one_target(Attributes attributes) {
    const ParseDepth depth = expressions_.nest();
    if (tokens_.skip_operator("(")) {
      Target target = targets(attributes);
      tokens_.expect_operator(")");
      return target;
    }
    Target target = name_target();
    if (attributes == Attributes::Allowed && tokens_.skip_operator(".")) {
      target.kind = Target::Kind::NamespaceAttribute;
      target.attribute = tokens_.expect_any_name();
    } else if (target.name == "loop" && loops_ > 0) {
      throw Failure("can't assign to the special variable 'loop' inside a loop", target.line);
    }
    return target;
  }

  // One target, or several separated by commas.
  Target targets(Attributes attributes) {
    Target first = one_target(attributes);
    if (!tokens_.current().is_operator(",")) {
      return first;
    }
    Target tuple;
    tuple.kind = Target::Kind::Tuple;
    tuple.line = first.line;
    tuple.items.push_back(std::move(first));
    while (tokens_.skip_operator(",")) {
      if (tokens_.current().kind != TokenKind::Name && !tokens_.current().is_operator("(")) {
        break;
      }
      if (tokens_.current().is_name("in")) {
        break;
      }
      tuple.items.push_back(one_target(attributes));
    }
    return tuple;
  }

  For for_loop() {
    For node;
    ++loops_;
    node.target = targets(Attributes::NotAllowed);
    tokens_.expect_name("in");
    node.iterable = expressions_.tuple(ExpressionParser::Inline::NotAllowed, "recursive");
    if (tokens_.skip_name("if")) {
      node.condition = expressions_.expression();
    }
    node.is_recursive = tokens_.skip_name("recursive");
    ++breakable_;
    node.body = body({"else", "endfor"});
    --breakable_;
    if (tokens_.take().text == "else") {
      node.otherwise = body_until("endfor");
    }
    --loops_;
    return node;
  }

  If if_chain() {
    If node;
    while (true) {
      ExpressionPtr test = expressions_.tuple(ExpressionParser::Inline::NotAllowed);
      auto block = std::make_unique<Block>(body({"elif", "else", "endif"}));
      node.branches.emplace_back(std::move(test), std::move(block));
      const std::string end = tokens_.take().text;
      if (end == "else") {
        node.otherwise = std::make_unique<Block>(body_until("endif"));
      }
      if (end != "elif") {
        return node;
      }
    }
  }

  void set(Block& block, int line) {
    Target target = targets(Attributes::Allowed);
    if (tokens_.skip_operator("=")) {
      block.push_back({line, Set{std::move(target), expressions_.tuple()}});
      return;
    }
    SetBlock node;
    node.target = std::move(target);
    node.filter = expressions_.block_filters(ExpressionParser::FirstBar::Written);
    node.body = body_until("endset");
    block.push_back({line, std::move(node)});
  }

  void signature(MacroDefinition& macro) {
    tokens_.expect_operator("(");
    while (!tokens_.skip_operator(")")) {
      if (!macro.parameters.empty()) {
        tokens_.expect_operator(",");
      }
      const Target parameter = name_target();
      if (tokens_.skip_operator("=")) {
        macro.defaults.push_back(expressions_.expression());
      } else if (!macro.defaults.empty()) {
        throw Failure("non-default argument follows default argument", parameter.line);
      }
      macro.parameters.push_back(parameter.name);
    }
    auto sorted = macro.parameters;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
      throw Failure("a macro has two parameters of one name", tokens_.line());
    }
  }

  // A body that runs as a separate function: it cannot break out of an enclosing loop.
  Block function_body(std::string_view end) {
    const size_t outside = std::exchange(breakable_, 0);
    Block result = body_until(end);
    breakable_ = outside;
    return result;
  }

  Macro macro() {
    Macro node;
    node.definition = std::make_unique<MacroDefinition>();
    node.definition->name = name_target().name;
    signature(*node.definition);
    node.definition->body = function_body("endmacro");
    return node;
  }

  CallBlock call_block(int line) {
    CallBlock node;
    node.caller = std::make_unique<MacroDefinition>();
    node.caller->name = "caller";
    if (tokens_.current().is_operator("(")) {
      signature(*node.caller);
    }
    node.call = expressions_.expression();
    if (!std::holds_alternative<Call>(node.call->node)) {
      throw Failure("expected a call after {% call", line);
    }
    node.caller->body = function_body("endcall");
    return node;
  }

  FilterBlock filter_block() {
    FilterBlock node;
    node.filter = expressions_.block_filters(ExpressionParser::FirstBar::Omitted);
    node.body = body_until("endfilter");
    return node;
  }

  Generation generation() {
    marks_generation_ = true;
    Generation node;
    node.body = function_body("endgeneration");
    return node;
  }

  With with() {
    With node;
    while (tokens_.current().kind != TokenKind::BlockEnd) {
      if (!node.assignments.empty()) {
        tokens_.expect_operator(",");
      }
      Target target = targets(Attributes::NotAllowed);
      tokens_.expect_operator("=");
      node.assignments.emplace_back(std::move(target), expressions_.expression());
    }
    node.body = body_until("endwith");
    return node;
  }

  void print(Block& block, int line) {
    for (bool first = true; tokens_.current().kind != TokenKind::BlockEnd; first = false) {
      if (!first) {
        tokens_.expect_operator(",");
      }
      block.push_back({line, Print{expressions_.expression()}});
    }
  }

  void loop_control(Block& block, int line, const std::string& name) const {
    if (breakable_ == 0) {
      throw Failure("{% " + name + " %} stands outside of a loop", line);
    }
    if (name == "break") {
      block.push_back({line, Break{}});
    } else {
      block.push_back({line, Continue{}});
    }
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  size_t loops_ = 0;      ///< enclosing loops, in which `loop` cannot be assigned
  size_t breakable_ = 0;  ///< enclosing loops that {% break %} could leave
  bool marks_generation_ = false;
};

}  // namespace

Template parse(std::string_view source, size_t max_depth) {
  Template result = Parser(source, max_depth).run();
  resolve_scopes(result);
  return result;
}

}  // namespace reprise::jinja
