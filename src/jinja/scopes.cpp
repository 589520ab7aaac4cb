// Resolves names to scopes. Each scope is analysed completely before the scopes inside it.
#include "jinja/scopes.h"

#include "jinja/syntax/first_use.h"
#include "jinja/syntax/walk.h"

#include <algorithm>
#include <map>
#include <set>

namespace reprise::jinja {
namespace {

/// Where the first value of a name in a scope comes from.
enum class Origin { Parameter, Around, Undefined };

// A branch of an `if` belongs to the scope around it. It holds only what it adds to `before_`, the
// scope up to the branch: a copy for each branch would take the product of names and branches.
class Scope {
 public:
  explicit Scope(const Scope* parent) : parent_(parent) {}

  static Scope branch_of(const Scope& scope) {
    Scope branch(scope.parent_);
    branch.before_ = &scope;
    return branch;
  }

  bool knows(const std::string& name) const {
    return has_origin(name) || (parent_ != nullptr && parent_->knows(name));
  }

  void read(const std::string& name) {
    if (!knows(name)) {
      origins_[name] = Origin::Around;
    }
  }

  void assign(const std::string& name) {
    assigned_.insert(name);
    if (!has_origin(name)) {
      const bool is_known_around = parent_ != nullptr && parent_->knows(name);
      origins_[name] = is_known_around ? Origin::Around : Origin::Undefined;
    }
  }

  void parameter(const std::string& name) {
    assigned_.insert(name);
    origins_[name] = Origin::Parameter;
  }

  // A name assigned only in some branches may still be unassigned: the outer value is visible.
  void merge_branches(const std::vector<Scope>& branches) {
    std::set<std::string> fresh;
    for (const Scope& branch : branches) {
      for (const std::string& name : branch.assigned_) {
        if (!has_assigned(name)) {
          fresh.insert(name);
        }
      }
    }
    for (const Scope& branch : branches) {
      for (const auto& [name, origin] : branch.origins_) {
        origins_[name] = origin;
      }
      assigned_.insert(branch.assigned_.begin(), branch.assigned_.end());
    }
    for (const std::string& name : fresh) {
      origins_[name] = Origin::Around;
    }
  }

  OwnNames own() const {
    OwnNames result;
    for (const auto& [name, origin] : origins_) {
      if (origin == Origin::Undefined) {
        result.push_back(name);
      }
    }
    return result;
  }

 private:
  bool has_origin(const std::string& name) const {
    return origins_.count(name) != 0 || (before_ != nullptr && before_->has_origin(name));
  }
  bool has_assigned(const std::string& name) const {
    return assigned_.count(name) != 0 || (before_ != nullptr && before_->has_assigned(name));
  }

  const Scope* parent_;
  const Scope* before_ = nullptr;
  std::map<std::string, Origin> origins_;
  std::set<std::string> assigned_;
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
  void operator()(const If& node) { branches(node, 0); }

 private:
  // `elif` counts as an `if` inside a branch.
  void branches(const If& node, size_t first) {
    expression(node.branches[first].first);
    std::vector<Scope> parts;
    parts.push_back(branch([&](Collector& inner) { inner.block(*node.branches[first].second); }));
    if (first + 1 < node.branches.size()) {
      Scope others = Scope::branch_of(*scope_);
      Collector inner(others);
      for (size_t i = first + 1; i < node.branches.size(); ++i) {
        inner.single_branch(node, i);
      }
      parts.push_back(std::move(others));
    }
    if (node.otherwise) {
      parts.push_back(branch([&](Collector& inner) { inner.block(*node.otherwise); }));
    }
    scope_->merge_branches(parts);
  }

  void single_branch(const If& node, size_t index) {
    expression(node.branches[index].first);
    std::vector<Scope> parts;
    parts.push_back(branch([&](Collector& inner) { inner.block(*node.branches[index].second); }));
    scope_->merge_branches(parts);
  }

  template <class Fill>
  Scope branch(const Fill& fill) {
    Scope inside = Scope::branch_of(*scope_);
    Collector inner(inside);
    fill(inner);
    return inside;
  }

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
