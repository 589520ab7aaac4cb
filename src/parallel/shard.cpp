// Which parameters form a unit, and how each strategy distributes them.
#include <reprise/parallel/shard.h>

#include "model/families/architecture.h"
#include "parallel/sharded_model.h"

#include <reprise/model/lora.h>
#include <reprise/model/quantization.h>

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

// The position of a parameter: embeddings 0, then the blocks, then the top. The table of a tied
// head is used at both ends and belongs to the first.
size_t position_of(const std::string& name, const Model& model, const Architecture& architecture) {
  for (const auto* path : {&architecture.embedding,
                           &architecture.embedding_norm,
                           &architecture.embedding_projection,
                           &architecture.positions}) {
    if (is_below(name, *path)) {
      return 0;
    }
  }
  if (is_below(name, architecture.blocks)) {
    const size_t begin = architecture.blocks.size() + 1;
    return std::stoul(name.substr(begin, name.find('.', begin) - begin)) + 1;
  }
  return static_cast<size_t>(model.config().layers) + 1;
}

// The dtype that load_model() would have used for a model whose parameters are still in their file.
at::ScalarType dtype_of(const at::Tensor& parameter,
                        const Model& model,
                        const ShardOptions& options) {
  const auto stored = options.device ? model.config().dtype : std::nullopt;
  return options.dtype.value_or(stored.value_or(parameter.scalar_type()));
}

// The groups of one unit: one per dtype, and separate ones for trained and frozen parameters.
std::vector<FlatGroup> groups_of(const Named& parameters,
                                 const Model& model,
                                 const std::unordered_map<const void*, std::string>& saved_names,
                                 const World& world,
                                 const ShardOptions& options) {
  std::map<std::tuple<bool, at::ScalarType>, Named> sorted;
  for (const auto& [name, parameter] : parameters) {
    // Adapters keep their own dtype.
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
    settings.kind = options.strategy == Parallel::Fsdp ? FlatKind::Sharded
                    : is_trained                       ? FlatKind::Replicated
                                                       : FlatKind::Untouched;
    settings.options =
        at::TensorOptions(dtype).device(options.device.value_or(members.front().second.device()));
    settings.reduce_dtype =
        options.reduce_dtype.value_or(dtype == at::kDouble ? at::kDouble : at::kFloat);
    settings.is_offloaded = options.cpu_offload;
    settings.sums_whole = options.strategy == Parallel::Ddp;
    settings.block = settings.sums_whole ? 1 : options.block_elements;
    groups.emplace_back(std::move(members), world, settings);
  }
  return groups;
}

void check_options(const Model& model, const ShardOptions& options) {
  TORCH_CHECK(model.sharded_parameters() == nullptr,
              "[parallel] the model is already sharded over processes.");
  const auto device = options.device.value_or(model.device());
  TORCH_CHECK(!options.cpu_offload || (options.strategy == Parallel::Fsdp && !device.is_cpu()),
              "[parallel] cpu_offload has an effect only under fsdp on a GPU.");
  TORCH_CHECK(options.block_elements > 0,
              "[parallel] block_elements: expected at least 1, got ",
              options.block_elements);
  TORCH_CHECK(options.strategy == Parallel::Fsdp || (!options.device && !options.dtype),
              "[parallel] models with mapped parameters need fsdp.");
  TORCH_CHECK(options.strategy != Parallel::Fsdp || !is_quantized(model),
              "[parallel] fsdp cannot shard a quantised model: every process holds it as a whole, "
              "under ddp or zero2.");
}

}  // namespace

std::shared_ptr<ShardedModel> shard(Model& model, const World& world, const ShardOptions& options) {
  check_options(model, options);
  const auto architecture = architecture_of(model.config());
  const auto blocks = static_cast<size_t>(model.config().layers);
  std::vector<Named> by_position(blocks + 2);
  for (const auto& item : model.named_parameters()) {
    by_position[position_of(item.key(), model, architecture)].emplace_back(item.key(),
                                                                           item.value());
  }
  std::vector<size_t> unit_index(blocks + 2);
  for (size_t position = 0; position < unit_index.size(); ++position) {
    unit_index[position] = position;
  }
  if (model.has_tied_head()) {
    by_position[0].insert(
        by_position[0].end(), by_position.back().begin(), by_position.back().end());
    by_position.pop_back();
    unit_index.back() = 0;
  }
  std::unordered_map<const void*, std::string> saved_names;
  for (const auto& [name, parameter] : trained_parameters(model)) {
    saved_names.emplace(parameter.unsafeGetTensorImpl(), name);
  }
  std::vector<Unit> units;
  for (size_t i = 0; i < by_position.size(); ++i) {
    const std::string name = i == 0        ? "the embeddings"
                             : i <= blocks ? model.block_path(static_cast<int64_t>(i) - 1)
                                           : "the head";
    units.emplace_back(name, groups_of(by_position[i], model, saved_names, world, options));
  }
  auto sharded =
      std::make_shared<ShardedUnits>(std::move(units), std::move(unit_index), world, options);
  sharded->set_backward_reads_embeddings(!architecture.embedding_norm.empty() ||
                                         model.config().outer_width() != model.config().hidden);
  model.set_sharded_parameters(sharded);
  return sharded;
}

ShardedModel* sharded_model_of(const Model& model) {
  return dynamic_cast<ShardedModel*>(model.sharded_parameters());
}

}  // namespace reprise
