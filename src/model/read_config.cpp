// config.json of a folder: of a whole model, or of the text part of one that also sees or hears.
#include "model/families/families.h"
#include "model/families/nearest_family.h"
#include "model/families/text_part.h"

#include <reprise/io/file_format.h>
#include <reprise/io/tensor_file.h>
#include <reprise/model/config.h>

#include <c10/util/Exception.h>

namespace reprise {
namespace {

std::string type_in(const Json& json) {
  const auto type = json.find("model_type");
  return type != json.end() && type->is_string() ? type->get<std::string>() : "";
}

bool is_known(const std::string& type) {
  return find_family(type) != nullptr;
}

/// None where the files cannot be read: the error is of config.json.
std::vector<std::string> tensors_in(const std::filesystem::path& folder) {
  try {
    return TensorCheckpoint(folder).names();
  } catch (const c10::Error&) {
    return {};
  }
}

std::vector<std::string> text_tensors(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const std::string& name : tensors_in(folder)) {
    if (const auto text = without_text_prefix(name)) {
      names.push_back(*text);
    }
  }
  return names;
}

void refuse_mixed(const std::filesystem::path& folder,
                  const std::string& source,
                  const Json& json,
                  const TextPart& part) {
  const std::string type = type_in(part.config);
  const std::string what = c10::str(
      "[config] ", source, ": a ", type_in(json), " model has ", joined_parts(part.others), ". ");
  TORCH_CHECK(is_known(type),
              what,
              "Its text part has the model_type \"",
              type,
              "\", which is not known. ",
              describe_nearest_family(part.config, text_tensors(folder)));
  TORCH_CHECK(false, what, "Give --text_only to open its text part, a ", type, " model, alone");
}

void refuse_unknown(const std::filesystem::path& folder,
                    const std::string& source,
                    const Json& json) {
  TORCH_CHECK(false,
              "[config] ",
              source,
              ": model_type: expected one of ",
              supported_families(),
              ", found \"",
              type_in(json),
              "\". ",
              describe_nearest_family(json, tensors_in(folder)));
}

}  // namespace

ModelConfig ModelConfig::read(const std::filesystem::path& folder, ModelPart part) {
  refuse_foreign_model(folder);
  const std::string path = (folder / "config.json").string();
  const Json json = read_json(path);
  const auto mixed = json.is_object() ? text_part(json) : std::nullopt;
  TORCH_CHECK(part != ModelPart::Text || mixed,
              "[config] ",
              path,
              ": describes no part besides text: --text_only has no effect");
  if (mixed && part != ModelPart::Whole) {
    if (!is_known(type_in(mixed->config))) {
      refuse_mixed(folder, path, json, *mixed);
    }
    return from_json(mixed->config, path + ": the text part");
  }
  if (json.is_object() && !is_known(type_in(json))) {
    if (mixed) {
      refuse_mixed(folder, path, json, *mixed);
    }
    refuse_unknown(folder, path, json);
  }
  return from_json(json, path);
}

}  // namespace reprise
