// Which parameters weight decay applies to: Trainer.get_decay_parameter_names of transformers.
#include <reprise/optim/optimizer.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace reprise {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// transformers also checks whether the module is a torch.nn.LayerNorm. By name, the ones that its
// patterns miss are GPT-2's ln_1, ln_2 and ln_f. A parameter of more dimensions is not a norm.
bool names_a_norm(std::string_view step, int64_t dimensions) {
  return step == "norm" || step.ends_with("_norm") || (step.starts_with("ln_") && dimensions == 1);
}

}  // namespace

bool decays(const std::string& name, const at::Tensor& parameter) {
  return decays(name, parameter.dim());
}

bool decays(const std::string& name, int64_t dimensions) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  if (contains(lower, "bias") || contains(lower, "layernorm") || contains(lower, "rmsnorm")) {
    return false;
  }
  std::string_view rest = lower;
  while (true) {
    const size_t dot = rest.find('.');
    if (names_a_norm(rest.substr(0, dot), dimensions)) {
      return false;
    }
    if (dot == std::string_view::npos) {
      return true;
    }
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace reprise
