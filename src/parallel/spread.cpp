// Which parameters are a unit, and what becomes of them under each strategy.
#include <reprise/parallel/spread.h>

#include "model/architecture.h"
#include "parallel/spread_model.h"

#include <reprise/model/lora.h>

#include <c10/util/Exception.h>

#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace reprise {

Parallel parallel_named(const std::string& name) {
  for (const auto strategy : {Parallel::Ddp, Parallel::Zero2, Parallel::Fsdp}) {
    if (name == name_of(strategy)) {
      return strategy;
    }
  }
  TORCH_CHECK(false, "[parallel] \"", name, "\": expected ddp, zero2 or fsdp.");
}

const char* name_of(Parallel strategy) {
  switch (strategy) {
    case Parallel::Ddp:
      return "ddp";
    case Parallel::Zero2:
      return "zero2";
    case Parallel::Fsdp:
      break;
  }
  return "fsdp";
}

namespace {

using Named = std::vector<std::pair<std::string, at::Tensor>>;

bool is_below(const std::string& name, const std::string& path) {
  return !path.empty() && name.starts_with(path + ".");
}

// The place of a parameter: embeddings 0, blocks from 1, the top. The table of a tied head is at
// the bottom and at the top; where it computes first is where it belongs.
size_t place_of(const std::string& name, const Model& model, const Architecture& architecture) {
  if (is_below(name, architecture.embedding) || is_below(name, architecture.positions)) {
    return 0;
  }
  if (is_below(name, architecture.blocks)) {
    const size_t begin = architecture.blocks.size() + 1;
    return std::stoul(name.substr(begin, name.find('.', begin) - begin)) + 1;
  }
  return static_cast<size_t>(model.config().layers) + 1;
}

// The type that load_model() would have given a model whose parameters are still in their file.
at::ScalarType dtype_of(const at::Tensor& parameter,
                        const Model& model,
                        const SpreadOptions& options) {
  const auto stored = options.device ? model.config().dtype : std::nullopt;
  return options.dtype.value_or(stored.value_or(parameter.scalar_type()));
}

// Of one unit: a group for each type, and for trained and frozen ones.
std::vector<FlatGroup> groups_of(const Named& parameters,
                                 const Model& model,
                                 const std::unordered_map<const void*, std::string>& saved_names,
                                 const World& world,
                                 const SpreadOptions& options) {
  std::map<std::tuple<bool, at::ScalarType>, Named> sorted;
  for (const auto& [name, parameter] : parameters) {
    // Adapters have a type of their own.
    const bool is_adapter = name.find(".lora.") != std::string::npos;
    const auto dtype = is_adapter ? parameter.scalar_type() : dtype_of(parameter, model, options);
    const auto saved = saved_names.find(parameter.unsafeGetTensorImpl());
    sorted[{parameter.requires_grad(), dtype}].emplace_back(
        saved == saved_names.end() ? name : saved->second, parameter);
  }
  std::vector<FlatGroup> groups;
  for (auto& [key, members] : sorted) {
    const auto [is_trained, dtype] = key;
    FlatGroup::Settings settings;
    settings.kind = options.strategy == Parallel::Fsdp ? FlatKind::Cut
                    : is_trained                       ? FlatKind::Whole
                                                       : FlatKind::Untouched;
    settings.options =
        at::TensorOptions(dtype).device(options.device.value_or(members.front().second.device()));
    settings.reduce_dtype =
        options.reduce_dtype.value_or(dtype == at::kDouble ? at::kDouble : at::kFloat);
    settings.is_offloaded = options.cpu_offload;
    settings.sums_whole = options.strategy == Parallel::Ddp;
    groups.emplace_back(std::move(members), world, settings);
  }
  return groups;
}

void check_options(const Model& model, const SpreadOptions& options) {
  TORCH_CHECK(model.keeper() == nullptr, "[parallel] the model is spread over processes already.");
  const auto device = options.device.value_or(model.device());
  TORCH_CHECK(!options.cpu_offload || (options.strategy == Parallel::Fsdp && !device.is_cpu()),
              "[parallel] keeping parts in main memory has an effect under fsdp on a GPU only.");
  TORCH_CHECK(options.strategy == Parallel::Fsdp || (!options.device && !options.dtype),
              "[parallel] models with mapped parameters are for fsdp.");
}

}  // namespace

std::shared_ptr<SpreadModel> spread(Model& model,
                                    const World& world,
                                    const SpreadOptions& options) {
  check_options(model, options);
  const auto architecture = architecture_of(model.config());
  const auto blocks = static_cast<size_t>(model.config().layers);
  std::vector<Named> by_place(blocks + 2);
  for (const auto& item : model.named_parameters()) {
    by_place[place_of(item.key(), model, architecture)].emplace_back(item.key(), item.value());
  }
  std::vector<size_t> places(blocks + 2);
  for (size_t place = 0; place < places.size(); ++place) {
    places[place] = place;
  }
  if (model.has_tied_head()) {
    by_place[0].insert(by_place[0].end(), by_place.back().begin(), by_place.back().end());
    by_place.pop_back();
    places.back() = 0;
  }
  std::unordered_map<const void*, std::string> saved_names;
  for (const auto& [name, parameter] : trained_parameters(model)) {
    saved_names.emplace(parameter.unsafeGetTensorImpl(), name);
  }
  std::vector<Unit> units;
  for (size_t i = 0; i < by_place.size(); ++i) {
    const std::string name = i == 0        ? "the embeddings"
                             : i <= blocks ? model.block_path(static_cast<int64_t>(i) - 1)
                                           : "the head";
    units.emplace_back(name, groups_of(by_place[i], model, saved_names, world, options));
  }
  auto keeper = std::make_shared<SpreadUnits>(std::move(units), std::move(places), world, options);
  model.set_keeper(keeper);
  return keeper;
}

SpreadModel* spread_of(const Model& model) {
  return dynamic_cast<SpreadModel*>(model.keeper());
}

}  // namespace reprise
