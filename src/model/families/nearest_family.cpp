// The family that has most kinds of the tensors, then the one that reads most of the fields. The
// name of a type says little: many are Llama under another one.
#include "model/families/nearest_family.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

namespace reprise {
namespace {

constexpr size_t kNamed = 6;

/// "model.layers.3.mlp.up_proj" as "model.layers.*.mlp.up_proj".
std::string without_numbers(std::string_view name) {
  std::string text;
  for (size_t i = 0; i < name.size();) {
    const size_t end = std::min(name.find('.', i), name.size());
    const std::string_view part = name.substr(i, end - i);
    const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    text.append(text.empty() ? "" : ".").append(is_number ? "*" : part);
    i = end + 1;
  }
  return text;
}

/// The paths of modules with parameters; the number of a block is "*".
std::set<std::string> module_paths(const Architecture& names) {
  std::set<std::string> paths = {names.embedding,
                                 names.embedding_norm,
                                 names.embedding_projection,
                                 names.output_projection,
                                 names.positions,
                                 names.final_norm,
                                 names.lm_head,
                                 names.sequence_head};
  for (const std::string& path : {names.attention_norm,
                                  names.mlp_norm,
                                  names.attention_output_norm,
                                  names.mlp_output_norm,
                                  names.query,
                                  names.key,
                                  names.value,
                                  names.qkv,
                                  names.attention_output,
                                  names.query_norm,
                                  names.key_norm,
                                  names.gate,
                                  names.up,
                                  names.down}) {
    paths.insert(names.blocks + ".*." + path);
  }
  return paths;
}

std::vector<std::string> foreign_tensors(const Architecture& names,
                                         const std::set<std::string>& modules) {
  const auto known = module_paths(names);
  std::vector<std::string> foreign;
  for (const std::string& module : modules) {
    if (!known.contains(module)) {
      foreign.push_back(module);
    }
  }
  return foreign;
}

std::string first_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamed); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() > kNamed ? text + " and " + std::to_string(names.size() - kNamed) + " more"
                               : text;
}

}  // namespace

std::string describe_nearest_family(const Json& json, std::span<const std::string> tensors) {
  std::set<std::string> modules;
  for (const std::string& name : tensors) {
    if (!name.ends_with(".inv_freq")) {  // computed, in old files
      modules.insert(without_numbers(std::string_view(name).substr(0, name.rfind('.'))));
    }
  }
  const auto readings = readings_of(json);
  const auto distance = [&](const FamilyReading& reading) {
    return std::tuple(foreign_tensors(reading.architecture, modules).size(),
                      !reading.refusal.empty(),
                      reading.unread.size());
  };
  const FamilyReading& nearest = *std::min_element(
      readings.begin(), readings.end(), [&](const FamilyReading& a, const FamilyReading& b) {
        return distance(a) < distance(b);
      });
  std::vector<std::string> differences;
  if (const auto foreign = foreign_tensors(nearest.architecture, modules); !foreign.empty()) {
    differences.push_back("has no tensors " + first_of(foreign));
  }
  if (!nearest.unread.empty()) {
    differences.push_back("does not read the fields " + first_of(nearest.unread));
  }
  if (!nearest.refusal.empty()) {
    differences.push_back("refuses it (" + nearest.refusal + ")");
  }
  std::string text = "The nearest family is " + nearest.model_type;
  for (size_t i = 0; i < differences.size(); ++i) {
    text += (i == 0 ? ", which " : ", and ") + differences[i];
  }
  return text + (differences.empty() ? ", which reads all of its fields" : "");
}

}  // namespace reprise
