#include "model/checkpoint_names.h"

#include "model/families/text_part.h"

#include <algorithm>

namespace reprise {

namespace {

/// "vision_tower.*" for "vision_tower.encoder.layers.0.…", "model.visual.*" for "model.visual.…".
std::string part_of(const std::string& name) {
  const size_t dot = name.find('.', name.starts_with("model.") ? 6 : 0);
  return name.substr(0, dot) + (dot == std::string::npos ? "" : ".*");
}

}  // namespace

std::map<std::string, std::string> checkpoint_names(const TensorCheckpoint& checkpoint,
                                                    const Architecture& architecture) {
  const auto names = checkpoint.names();
  const std::string prefix = architecture.backbone + ".";
  const bool lacks_prefix = std::none_of(
      names.begin(), names.end(), [&](const auto& name) { return name.starts_with(prefix); });
  const auto is_computed = [&](const std::string& name) {
    return std::any_of(architecture.computed_buffers.begin(),
                       architecture.computed_buffers.end(),
                       [&](const auto& end) { return name.ends_with(end); });
  };
  const std::set<std::string> heads = {
      architecture.lm_head, architecture.sequence_head, architecture.token_head};
  std::map<std::string, std::string> result;
  for (const auto& name : names) {
    if (!is_computed((lacks_prefix ? prefix : "") + name)) {
      const bool is_head = heads.contains(name.substr(0, name.rfind('.')));
      result[lacks_prefix && !is_head ? prefix + name : name] = name;
    }
  }
  return result;
}

std::map<std::string, std::string> text_names(const TensorCheckpoint& checkpoint,
                                              const Architecture& architecture,
                                              std::set<std::string>& others) {
  const auto names = checkpoint.names();
  const bool has_prefix = std::any_of(names.begin(), names.end(), [](const auto& name) {
    return without_text_prefix(name).has_value();
  });
  std::map<std::string, std::string> result;
  for (const auto& name : names) {
    const std::string text = without_text_prefix(name).value_or(name);
    const bool is_head = text == architecture.lm_head + ".weight";
    const bool is_text = has_prefix ? text != name : text.starts_with(architecture.backbone + ".");
    const bool is_image = text.starts_with(architecture.backbone + ".vis");
    if (is_head || (is_text && !is_image)) {
      result[text] = name;
    } else {
      others.insert(part_of(name));
    }
  }
  return result;
}

}  // namespace reprise
