// Resolves names to scopes. Each scope is analysed completely before the scopes inside it.
#include "jinja/scopes.h"

#include "jinja/syntax/first_use.h"
#include "jinja/syntax/walk.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace reprise::jinja {
namespace {

/// Where the first value of a name in a scope comes from.
enum class Origin { Parameter, Around, Undefined };

class Scope {
 public:
  using Names = std::vector<std::string>;
  explicit Scope(const Scope* parent) : parent_(parent) {}

  bool knows(const std::string& name) const {
    return origins_.count(name) != 0 || (parent_ != nullptr && parent_->knows(name));
  }

  void read(const std::string& name) {
    if (!knows(name)) {
      add(name, Origin::Around);
    }
  }

  void assign(const std::string& name) {
    const bool is_known_around = parent_ != nullptr && parent_->knows(name);
    add(name, is_known_around ? Origin::Around : Origin::Undefined);
  }

  void parameter(const std::string& name) { origins_[name] = Origin::Parameter; }

  /// The names that `collect` adds, which are then forgotten: another branch does not see them.
  template <class Collect>
  Names branch(const Collect& collect) {
    Names before = std::exchange(added_, {});
    collect();
    Names names = std::exchange(added_, std::move(before));
    for (const std::string& name : names) {
      origins_.erase(name);
    }
    return names;
  }

  // A name assigned only in some branches may still be unassigned: the outer value is visible.
  void merge_branches(const std::vector<Names>& branches) {
    for (const Names& names : branches) {
      for (const std::string& name : names) {
        add(name, Origin::Around);
      }
    }
  }

  OwnNames own() const {
    OwnNames result;
    for (const auto& [name, origin] : origins_) {
      if (origin == Origin::Undefined) {
        result.push_back(name);
      }
    }
    std::sort(result.begin(), result.end());
    return result;
  }

 private:
  // Unless the scope has the name: its first use counts.
  void add(const std::string& name, Origin origin) {
    if (origins_.emplace(name, origin).second) {
      added_.push_back(name);
    }
  }

  const Scope* parent_;
  std::unordered_map<std::string, Origin> origins_;
  Names added_;  ///< in the current branch
};

// Collects the names of a block into its scope, without entering inner scopes.
class Collector {
 public:
  explicit Collector(Scope& scope) : scope_(&scope) {}

  void block(const Block& statements) {
    for (const Statement& statement : statements) {
      std::visit(*this, statement.node);
    }
  }

  void expression(const ExpressionPtr& expression) {
    if (expression) {
      names(*expression);
    }
  }

  void target(const Target& target) {
    switch (target.kind) {
      case Target::Kind::Name:
        return scope_->assign(target.name);
      case Target::Kind::NamespaceAttribute:
        return scope_->read(target.name);
      case Target::Kind::Tuple:
        std::for_each(target.items.begin(), target.items.end(), [&](const Target& item) {
          this->target(item);
        });
    }
  }

  void parameters(const Target& target) {
    if (target.kind == Target::Kind::Tuple) {
      for (const Target& item : target.items) {
        parameters(item);
      }
    } else {
      scope_->parameter(target.name);
    }
  }

  void operator()(const Text&) {}
  void operator()(const Break&) {}
  void operator()(const Continue&) {}
  void operator()(const Generation&) {}
  void operator()(const Print& node) { expression(node.value); }
  void operator()(const For& node) { expression(node.iterable); }
  void operator()(const Macro& node) { scope_->assign(node.definition->name); }
  void operator()(const CallBlock& node) { expression(node.call); }
  void operator()(const FilterBlock& node) { expression(node.filter); }
  void operator()(const SetBlock& node) { target(node.target); }
  void operator()(const Set& node) {
    expression(node.value);
    target(node.target);
  }
  void operator()(const With& node) {
    for (const auto& [target, value] : node.assignments) {
      expression(value);
    }
  }
  // `elif` counts as an `if` inside a branch.
  void operator()(const If& node) {
    expression(node.branches[0].first);
    std::vector<Scope::Names> parts;
    parts.push_back(scope_->branch([&] { block(*node.branches[0].second); }));
    if (node.branches.size() > 1) {
      parts.push_back(scope_->branch([&] {
        for (size_t i = 1; i < node.branches.size(); ++i) {
          expression(node.branches[i].first);
          scope_->merge_branches({scope_->branch([&] { block(*node.branches[i].second); })});
        }
      }));
    }
    if (node.otherwise) {
      parts.push_back(scope_->branch([&] { block(*node.otherwise); }));
    }
    scope_->merge_branches(parts);
  }

 private:
  void names(const Expression& expression) {
    if (const auto* name = std::get_if<Name>(&expression.node)) {
      scope_->read(name->name);
    }
    for_each_child(expression, [&](const Expression& child) { names(child); });
  }

  Scope* scope_;
};

// Resolves each scope inside a block.
class Resolver {
 public:
  explicit Resolver(const Scope& scope) : scope_(scope) {}

  void block(Block& statements) {
    for (Statement& statement : statements) {
      std::visit(*this, statement.node);
    }
  }

  void operator()(Text&) {}
  void operator()(Print&) {}
  void operator()(Set&) {}
  void operator()(Break&) {}
  void operator()(Continue&) {}
  void operator()(If& node) {
    for (auto& [test, body] : node.branches) {
      block(*body);
    }
    if (node.otherwise) {
      block(*node.otherwise);
    }
  }
  void operator()(For& node) {
    node.own = resolve(node.body, [&](Scope& scope, Collector& collector) {
      scope.parameter("loop");
      collector.parameters(node.target);
    });
    node.own_otherwise = resolve(node.otherwise, [](Scope&, Collector&) {});
  }
  void operator()(SetBlock& node) {
    node.own = resolve(node.body, [](Scope&, Collector&) {});
  }
  void operator()(FilterBlock& node) {
    node.own = resolve(node.body, [](Scope&, Collector&) {});
  }
  void operator()(Generation& node) {
    node.own = resolve(node.body, [](Scope&, Collector&) {});
  }
  void operator()(With& node) {
    node.own = resolve(node.body, [&](Scope&, Collector& collector) {
      for (const auto& [target, value] : node.assignments) {
        collector.parameters(target);
      }
    });
  }
  void operator()(Macro& node) { macro(*node.definition); }
  void operator()(CallBlock& node) { macro(*node.caller); }

 private:
  template <class Prepare>
  OwnNames resolve(Block& body, const Prepare& prepare) {
    Scope inner(&scope_);
    Collector collector(inner);
    prepare(inner, collector);
    collector.block(body);
    Resolver(inner).block(body);
    return inner.own();
  }

  void macro(MacroDefinition& macro) {
    const auto takes = [&](const char* name) {
      return std::find(macro.parameters.begin(), macro.parameters.end(), name) !=
             macro.parameters.end();
    };
    macro.uses_caller = !takes("caller") && reads_before_assigning(macro.body, "caller");
    macro.uses_kwargs = !takes("kwargs") && reads_before_assigning(macro.body, "kwargs");
    macro.uses_varargs = !takes("varargs") && reads_before_assigning(macro.body, "varargs");
    macro.own = resolve(macro.body, [&](Scope& scope, Collector& collector) {
      for (const std::string& parameter : macro.parameters) {
        scope.parameter(parameter);
      }
      const std::pair<const char*, bool> specials[] = {{"caller", macro.uses_caller},
                                                       {"kwargs", macro.uses_kwargs},
                                                       {"varargs", macro.uses_varargs}};
      for (const auto& [name, is_used] : specials) {
        if (is_used) {
          scope.parameter(name);
        }
      }
      for (const auto& value : macro.defaults) {
        collector.expression(value);
      }
    });
  }

  const Scope& scope_;
};

}  // namespace

void resolve_scopes(Template& tree) {
  Scope root(nullptr);
  Collector(root).block(tree.body);
  tree.own = root.own();
  Resolver(root).block(tree.body);
}

}  // namespace reprise::jinja
