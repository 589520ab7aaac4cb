#include "wording.h"

#include <array>
#include <string_view>
#include <utility>

namespace reprise::python {
namespace {

using Words = std::pair<std::string_view, std::string_view>;

// In order: later ones see what earlier ones wrote.
constexpr std::array kSpellings = {
    Words{" = true", "=True"},
    Words{" = false", "=False"},
    Words{"DeterminismCheck::Values", "determinism_check=\"values\""},
    Words{"DeterminismCheck::Metadata", "determinism_check=\"default\""},
    Words{"CheckpointOptions::", ""},
    Words{"torch::autograd::grad()", "torch.autograd.grad()"},
    Words{"policy::", "reprise.policies."},
    Words{"reprise::is_recomputing", "reprise.is_recomputing"},
    Words{"reprise::register_effectful_op", "reprise.register_effectful_op"},
    Words{"reprise::set_offload_settings", "reprise.set_offload_settings"},
    Words{"C++ variables", "variables"},
    Words{"a catch (...). Let unknown exceptions pass", "an except. Let its exception pass"},
    Words{"LibTorch", "PyTorch"},
};

// A part of our message, and what torch.utils.checkpoint says.
constexpr std::array kTheirs = {
    Words{"; the first that is missing was saved by ",
          "A different number of tensors was saved during the original forward and recomputation."},
    Words{"; the first that is new came ",
          "trying to save more tensors during recomputation than during the original forward "
          "pass."},
    Words{" in forward and came back as ",
          "Recomputed values for the following tensors have different metadata than during the "
          "forward pass."},
    Words{"a reentrant checkpoint is incompatible with ",
          "When use_reentrant=True, torch.utils.checkpoint is incompatible with "
          "torch.autograd.grad() or passing an `inputs` argument to torch.autograd.backward()."},
    Words{"none of the outputs of ",
          "none of output has requires_grad=True, this checkpoint() is not necessary"},
};

void replace_all(std::string& text, const Words& words) {
  for (size_t at = 0; (at = text.find(words.first, at)) != std::string::npos;
       at += words.second.size()) {
    text.replace(at, words.first.size(), words.second);
  }
}

}  // namespace

bool is_ours(std::string_view message) {
  return message.find("[reprise]") != std::string_view::npos;
}

std::string worded(std::string message) {
  if (!is_ours(message)) {
    return message;
  }
  for (const auto& words : kSpellings) {
    replace_all(message, words);
  }
  for (const auto& [ours, theirs] : kTheirs) {
    if (message.find(ours) != std::string::npos && message.find(theirs) == std::string::npos) {
      message += " (torch.utils.checkpoint: \"" + std::string(theirs) + "\")";
    }
  }
  return message;
}

}  // namespace reprise::python
