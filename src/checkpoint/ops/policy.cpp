#include <reprise/policy.h>

#include "checkpoint/ops/looking_policy.h"
#include "checkpoint/ops/op_effects.h"
#include "checkpoint/ops/op_info.h"

#include <reprise/options.h>

#include <algorithm>
#include <map>
#include <utility>

namespace reprise {

Policy::Policy() = default;
Policy::~Policy() = default;

void Policy::verify(const std::vector<KeptOp>&) const {}

namespace policy {
namespace {

[[noreturn]] void refuse_no_match(const std::string& policy, const std::string& what) {
  throw CheckpointError(c10::str("[reprise] policy ",
                                 policy,
                                 " kept nothing: ",
                                 what,
                                 " in this region, so the policy has no effect there."));
}

/// What to name instead of a composite operator, which a policy never sees.
std::string hint_for(const std::string& name) {
  static const std::map<std::string, std::string> hints{
      {"aten::linear", "aten::addmm (with bias) or aten::mm, or policy::save_matmuls()"},
      {"aten::matmul", "aten::mm or aten::bmm, or policy::save_matmuls()"},
      {"aten::einsum", "aten::bmm, or policy::save_matmuls()"},
      {"aten::scaled_dot_product_attention", "policy::save_attention()"},
      {"aten::layer_norm", "aten::native_layer_norm"},
      {"aten::group_norm", "aten::native_group_norm"},
      {"aten::batch_norm", "aten::native_batch_norm"},
      {"aten::rms_norm", "the operators it is made of, or aten::_fused_rms_norm on CUDA"},
      {"aten::conv1d", "aten::convolution"},
      {"aten::conv2d", "aten::convolution"},
      {"aten::conv3d", "aten::convolution"},
      {"aten::softmax", "aten::_softmax"},
      {"aten::log_softmax", "aten::_log_softmax"},
      {"aten::dropout", "aten::native_dropout on CUDA"},
      {"aten::reshape", "aten::view or aten::clone"}};
  const auto found = hints.find(name);
  return found == hints.end() ? "the operators it is made of" : found->second;
}

class FullRecompute final : public detail::LookingPolicy {
 public:
  Decision decide(const OpContext&) const override { return Decision::Recompute; }
  std::string describe() const override { return "full()"; }
};

class SaveOps final : public detail::LookingPolicy {
 public:
  explicit SaveOps(std::vector<std::string> names) : names_(std::move(names)) {
    if (names_.empty()) {
      throw CheckpointError("[reprise] policy::save_ops needs at least one operator name.");
    }
    for (size_t rule = 0; rule < names_.size(); ++rule) {
      add_rule(rule);
    }
  }

  Decision decide(const OpContext& op) const override {
    return rule_of(op.name, op.overload) ? Decision::Keep : Decision::Recompute;
  }

  void verify(const std::vector<KeptOp>& kept) const override {
    std::vector<bool> has_matched(names_.size());
    for (const auto& op : kept) {
      for (size_t rule = 0; rule < names_.size(); ++rule) {
        has_matched[rule] = has_matched[rule] || matches(rule, op.name, op.overload);
      }
    }
    const auto unmatched = std::find(has_matched.begin(), has_matched.end(), false);
    if (unmatched != has_matched.end()) {
      refuse_no_match(describe(),
                      names_[static_cast<size_t>(unmatched - has_matched.begin())] + " never ran");
    }
  }

  std::string describe() const override {
    std::string text = "save_ops(";
    for (const auto& name : names_) {
      text += (text.back() == '(' ? "" : ", ") + name;
    }
    return text + ")";
  }

 private:
  struct Rule {
    std::string name;
    bool any_overload;
    std::string overload;
  };

  void add_rule(size_t index) {
    const auto operators = detail::find_operators(names_[index]);
    bool has_functional = false;
    bool has_recordable = false;
    for (const auto& op : operators) {
      const bool is_functional = !op.schema().is_mutable();
      has_functional = has_functional || is_functional;
      has_recordable = has_recordable || (is_functional && !detail::is_composite(op));
    }
    if (has_functional && !has_recordable) {
      throw CheckpointError(c10::str("[reprise] policy::save_ops cannot keep ",
                                     names_[index],
                                     ": it is a composite that autograd decomposes before results "
                                     "can be kept, so the policy would "
                                     "have no effect. Name ",
                                     hint_for(operators.front().schema().name()),
                                     "."));
    }
    for (const auto& op : operators) {
      if (detail::op_effects(op).runs_once) {
        throw CheckpointError(c10::str("[reprise] policy::save_ops cannot keep ",
                                       names_[index],
                                       ": it is an effectful operator, whose results every region "
                                       "keeps without a policy."));
      }
    }
    if (!has_functional) {
      throw CheckpointError(
          c10::str("[reprise] policy::save_ops cannot keep ",
                   names_[index],
                   ": it writes its arguments, and leaving it out of recompute would leave "
                   "them unwritten. Use the out-of-place operator."));
    }
    const bool any_overload = names_[index].find('.') == std::string::npos;
    const auto& schema = operators.front().schema();
    rules_.push_back({schema.name(), any_overload, any_overload ? "" : schema.overload_name()});
  }

  bool matches(size_t rule, std::string_view name, std::string_view overload) const {
    const auto& r = rules_[rule];
    return r.name == name && (r.any_overload || r.overload == overload);
  }

  bool rule_of(std::string_view name, std::string_view overload) const {
    for (size_t rule = 0; rule < rules_.size(); ++rule) {
      if (matches(rule, name, overload)) {
        return true;
      }
    }
    return false;
  }

  std::vector<std::string> names_;
  std::vector<Rule> rules_;
};

class SaveClass final : public detail::LookingPolicy {
 public:
  SaveClass(OpClass op_class, size_t every, std::string description, std::string no_match)
      : op_class_(op_class),
        every_(every),
        description_(std::move(description)),
        no_match_(std::move(no_match)) {
    if (every_ == 0) {
      throw CheckpointError(c10::str(
          "[reprise] policy ", description_, ": `every` counts from 1; 0 would keep nothing."));
    }
  }

  Decision decide(const OpContext& op) const override {
    return op.op_class == op_class_ && op.class_index % every_ == 0 ? Decision::Keep
                                                                    : Decision::Recompute;
  }

  void verify(const std::vector<KeptOp>& kept) const override {
    if (kept.empty()) {
      refuse_no_match(description_, no_match_);
    }
  }

  std::string describe() const override { return description_; }

 private:
  const OpClass op_class_;
  const size_t every_;
  const std::string description_;
  const std::string no_match_;
};

class Callback final : public Policy {
 public:
  Callback(std::function<Decision(const OpContext&)> decide, std::string description)
      : decide_(std::move(decide)), description_(std::move(description)) {
    if (!decide_) {
      throw CheckpointError("[reprise] policy::from needs a callback.");
    }
  }

  Decision decide(const OpContext& op) const override { return decide_(op); }
  std::string describe() const override { return description_; }

 private:
  const std::function<Decision(const OpContext&)> decide_;
  const std::string description_;
};

}  // namespace

std::shared_ptr<const Policy> full() {
  return std::make_shared<FullRecompute>();
}

std::shared_ptr<const Policy> save_ops(std::vector<std::string> names) {
  return std::make_shared<SaveOps>(std::move(names));
}

std::shared_ptr<const Policy> save_attention() {
  return std::make_shared<SaveClass>(OpClass::Attention,
                                     1,
                                     "save_attention()",
                                     "no fused attention ran (attention written by hand or on the "
                                     "unfused math path does not count)");
}

std::shared_ptr<const Policy> save_matmuls(size_t every) {
  return std::make_shared<SaveClass>(
      OpClass::Matmul, every, c10::str("save_matmuls(", every, ")"), "no matrix product ran");
}

std::shared_ptr<const Policy> from(std::function<Decision(const OpContext&)> decide,
                                   std::string description) {
  return std::make_shared<Callback>(std::move(decide), std::move(description));
}

}  // namespace policy
}  // namespace reprise
