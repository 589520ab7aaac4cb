// Merges the checkpointing flags with --gradient_checkpointing_kwargs. A setting given in both must
// be the same, and none may be without effect.
#include "reprise/training/options/checkpointing_request.h"

#include "reprise/training/effects/flag_effects.h"
#include "reprise/training/flags/memory_flags.h"
#include "reprise/training/flags/suggest.h"

#include <reprise/model/block_checkpointing.h>

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

namespace reprise::app {

namespace {

constexpr const char* kKwargs = "--gradient_checkpointing_kwargs";

const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> keys = {"use_reentrant",
                                                "every_n_layers",
                                                "ratio",
                                                "layers",
                                                "policy",
                                                "selective",
                                                "preserve_rng_state",
                                                "determinism_check",
                                                "early_stop"};
  return keys;
}

Json parse_kwargs(const std::string& text) {
  Json kwargs = text.empty() ? Json::object() : parse_json(text, kKwargs);
  TORCH_CHECK(kwargs.is_object(), kKwargs, ": expected an object, found ", kind_of(kwargs));
  for (const auto& [key, value] : kwargs.items()) {
    TORCH_CHECK(key != "offload", kKwargs, ": offload is not available yet");
    TORCH_CHECK(std::find(known_keys().begin(), known_keys().end(), key) != known_keys().end(),
                kKwargs,
                ": unknown key \"",
                key,
                "\"",
                did_you_mean(nearest(key, known_keys())),
                " It takes ",
                c10::Join(", ", known_keys()));
  }
  return kwargs;
}

[[noreturn]] void refuse_value(const std::string& key, const char* expected, const Json& found) {
  TORCH_CHECK(false, kKwargs, ": ", key, ": expected ", expected, ", found ", found.dump());
}

/// The switch of this name, if it is there.
std::optional<bool> switch_in(const Json& kwargs, const char* key) {
  if (!kwargs.contains(key)) {
    return std::nullopt;
  }
  if (!kwargs[key].is_boolean()) {
    refuse_value(key, "true or false", kwargs[key]);
  }
  return kwargs[key].get<bool>();
}

std::optional<std::string> text_in(const Json& kwargs, const char* key) {
  if (!kwargs.contains(key)) {
    return std::nullopt;
  }
  if (!kwargs[key].is_string()) {
    refuse_value(key, "a text", kwargs[key]);
  }
  return kwargs[key].get<std::string>();
}

/// "0-7,12", [0, 1, 12] or 3.
std::string layers_text(const Json& layers) {
  if (layers.is_string()) {
    return layers.get<std::string>();
  }
  std::vector<std::string> numbers;
  for (const Json& layer : layers.is_array() ? layers : Json::array({layers})) {
    if (!layer.is_number_integer()) {
      refuse_value("layers", "a list of blocks", layers);
    }
    numbers.push_back(layer.dump());
  }
  return c10::Join(",", numbers);
}

void check_contradiction(const TrainingFlags& flags, const char* flag, bool is_same) {
  TORCH_CHECK(!flags.given.contains(flag) || is_same,
              "--",
              flag,
              " and ",
              kKwargs,
              " contradict each other: say it once");
}

std::string choose_blocks(const TrainingFlags& flags, const Json& kwargs) {
  std::vector<std::string> choices;
  const auto choose = [&](const std::string& choice) {
    if (std::find(choices.begin(), choices.end(), choice) == choices.end()) {
      choices.push_back(choice);
    }
  };
  if (flags.given.contains("gradient_checkpointing_ratio")) {
    choose("ratio:" + Json(flags.gradient_checkpointing_ratio).dump());
  }
  if (!flags.gradient_checkpointing_layers.empty()) {
    choose("list:" + flags.gradient_checkpointing_layers);
  }
  if (kwargs.contains("every_n_layers")) {
    if (!kwargs["every_n_layers"].is_number_integer()) {
      refuse_value("every_n_layers", "a whole number", kwargs["every_n_layers"]);
    }
    choose("every:" + kwargs["every_n_layers"].dump());
  }
  if (kwargs.contains("ratio")) {
    if (!kwargs["ratio"].is_number()) {
      refuse_value("ratio", "a number", kwargs["ratio"]);
    }
    choose("ratio:" + Json(kwargs["ratio"].get<double>()).dump());
  }
  if (kwargs.contains("layers")) {
    choose("list:" + layers_text(kwargs["layers"]));
  }
  TORCH_CHECK(choices.size() <= 1,
              "gradient checkpointing of ",
              c10::Join(" and of ", choices),
              ": ratio, layers and every_n_layers choose blocks in different ways; give one");
  return choices.empty() ? "all" : choices.front();
}

std::string choose_policy(const TrainingFlags& flags, const Json& kwargs) {
  const auto named = text_in(kwargs, "policy");
  const auto selective = switch_in(kwargs, "selective");
  const std::string selected = selective.value_or(false) ? "attention" : "full";
  TORCH_CHECK(!named || !selective || *named == selected,
              kKwargs,
              ": selective keeps the results of attention, policy ",
              *named,
              " does not; give one");
  if (!named && !selective) {
    return flags.gradient_checkpointing_policy;
  }
  const std::string policy = named.value_or(selected);
  check_contradiction(
      flags, "gradient_checkpointing_policy", policy == flags.gradient_checkpointing_policy);
  return policy;
}

void check_reentrant(const CheckpointingRequest& request, const Json& kwargs) {
  if (!request.use_reentrant) {
    return;
  }
  TORCH_CHECK(request.policy == "full",
              "--gradient_checkpointing_policy ",
              request.policy,
              " has no effect with use_reentrant, which keeps nothing inside a block");
  for (const char* key : {"early_stop", "determinism_check"}) {
    TORCH_CHECK(!kwargs.contains(key),
                kKwargs,
                ": ",
                key,
                " has no effect with use_reentrant, which recomputes whole blocks unchecked");
  }
}

}  // namespace

CheckpointingRequest checkpointing_request(const TrainingFlags& flags) {
  CheckpointingRequest request;
  if (has_memory_budget(flags)) {
    request.enabled = true;
    request.policy = "planned";
    return request;
  }
  if (!flags.gradient_checkpointing) {
    refuse(flags,
           {"gradient_checkpointing_use_reentrant",
            "gradient_checkpointing_kwargs",
            "gradient_checkpointing_ratio",
            "gradient_checkpointing_layers",
            "gradient_checkpointing_policy"},
           "without --gradient_checkpointing");
    return request;
  }
  request.enabled = true;
  const Json kwargs = parse_kwargs(flags.gradient_checkpointing_kwargs);
  request.use_reentrant = flags.gradient_checkpointing_use_reentrant;
  if (const auto reentrant = switch_in(kwargs, "use_reentrant")) {
    check_contradiction(
        flags, "gradient_checkpointing_use_reentrant", *reentrant == request.use_reentrant);
    request.use_reentrant = *reentrant;
  }
  request.blocks = choose_blocks(flags, kwargs);
  request.policy = choose_policy(flags, kwargs);
  request.preserve_rng_state =
      switch_in(kwargs, "preserve_rng_state").value_or(request.preserve_rng_state);
  request.early_stop = switch_in(kwargs, "early_stop").value_or(request.early_stop);
  request.determinism_check =
      text_in(kwargs, "determinism_check").value_or(request.determinism_check);
  const std::vector<std::string> checks = {"default", "none", "values"};
  if (std::find(checks.begin(), checks.end(), request.determinism_check) == checks.end()) {
    refuse_value("determinism_check", "default, none or values", request.determinism_check);
  }
  check_reentrant(request, kwargs);
  BlockChoice::parse(request.blocks);  // throws now rather than when the model has been loaded
  checkpoint_options_named(request.policy);
  return request;
}

}  // namespace reprise::app
