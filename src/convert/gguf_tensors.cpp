// Every tensor of a file is used exactly once. One that is left over is an error, because dropping
// it would change the model.
#include "convert/gguf_tensors.h"

#include "convert/gguf_rope.h"
#include "io/gguf/gguf_dequantize.h"
#include "model/families/architecture.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <set>
#include <utility>

namespace reprise::convert {
namespace {

// Note [Rotary order of rows]
// transformers rotates dimension i of a head with dimension i + half; llama.cpp's llama rotates
// neighbours. So row i of a head is stored at 2 i and row i + half at 2 i + 1: each head, (2,
// half), is transposed, and on the way back (half, 2).
at::Tensor gguf_order(const at::Tensor& weight, const GgufPlace& place) {
  switch (place.order) {
    case RowOrder::AsStored:
      return weight;
    case RowOrder::RotaryPairs:
      return weight.reshape({place.heads, 2, weight.size(0) / place.heads / 2, -1})
          .transpose(1, 2)
          .reshape(weight.sizes());
    case RowOrder::QkvBlocks:
      return weight.reshape({place.heads, 3, weight.size(0) / place.heads / 3, -1})
          .transpose(0, 1)
          .reshape(weight.sizes());
    case RowOrder::Transposed:
      return weight.dim() == 2 ? weight.t() : weight;
    case RowOrder::PlusOne:
      return weight.to(at::kFloat) + 1;
  }
  TORCH_INTERNAL_ASSERT(false);
}

at::Tensor transformers_order(const at::Tensor& weight, const GgufPlace& place) {
  switch (place.order) {
    case RowOrder::RotaryPairs:
      return weight.reshape({place.heads, weight.size(0) / place.heads / 2, 2, -1})
          .transpose(1, 2)
          .reshape(weight.sizes());
    case RowOrder::QkvBlocks:
      return weight.reshape({3, place.heads, weight.size(0) / place.heads / 3, -1})
          .transpose(0, 1)
          .reshape(weight.sizes());
    case RowOrder::PlusOne:
      return weight - 1;
    case RowOrder::AsStored:
    case RowOrder::Transposed:
      return gguf_order(weight, place);
  }
  TORCH_INTERNAL_ASSERT(false);
}

std::vector<int64_t> gguf_shape(std::vector<int64_t> shape, const GgufPlace& place) {
  if (place.order == RowOrder::Transposed && shape.size() == 2) {
    std::swap(shape[0], shape[1]);
  }
  return shape;
}

/// "blk.0.attn_q.weight": the module's place, and what kind of parameter it is.
GgufPlace place_of(const std::string& parameter, const std::map<std::string, GgufPlace>& places) {
  const size_t dot = parameter.rfind('.');
  const auto found = places.find(parameter.substr(0, dot));
  TORCH_CHECK(found != places.end(),
              "[gguf] tensor ",
              parameter,
              ": llama.cpp has no such part in this family");
  GgufPlace place = found->second;
  place.name += parameter.substr(dot);
  return place;
}

const io::GgufTensor& find_tensor(const io::GgufFile& file,
                                  const std::string& name,
                                  const std::vector<int64_t>& shape) {
  const std::string where = "[gguf] " + file.path().string() + ": ";
  const io::GgufTensor* const tensor = file.find(name);
  TORCH_CHECK(tensor != nullptr, where, "expected a tensor \"", name, "\", found none");
  TORCH_CHECK(tensor->shape == shape,
              where,
              "tensor \"",
              name,
              "\": expected shape ",
              at::IntArrayRef(shape),
              ", found ",
              at::IntArrayRef(tensor->shape));
  return *tensor;
}

void refuse_leftovers(const io::GgufFile& file,
                      const ModelConfig& config,
                      const std::set<std::string>& used) {
  for (const io::GgufTensor& tensor : file.tensors()) {
    TORCH_CHECK(used.contains(tensor.name),
                "[gguf] ",
                file.path().string(),
                ": tensor \"",
                tensor.name,
                "\": not part of a ",
                config.family,
                " model of ",
                config.layers,
                " layers");
  }
}

bool is_matrix(const std::string& name, int64_t dimensions) {
  return dimensions > 1 && name.ends_with(".weight") && !name.starts_with("position_embd.");
}

io::GgufType type_of(const std::string& name,
                     const std::vector<int64_t>& shape,
                     io::GgufType type,
                     std::vector<std::string>& warnings) {
  if (!is_matrix(name, static_cast<int64_t>(shape.size()))) {
    return io::GgufType::F32;
  }
  const auto row = static_cast<uint64_t>(shape.back());
  if (const auto block = io::gguf_block(type).elements; row % block != 0) {
    warnings.push_back(
        c10::str(name, ": rows of ", row, " are no whole blocks of ", block, "; written as F16"));
    return io::GgufType::F16;
  }
  return type;
}

}  // namespace

std::vector<LazyTensor> imported_tensors(const io::GgufFile& file,
                                         const ModelConfig& config,
                                         at::ScalarType dtype) {
  const Model shape(config, HeadKind::CausalLm, at::TensorOptions(at::kFloat).device(at::kMeta));
  const auto places = gguf_places(config);
  std::set<std::string> used = {kRopeDivisors};  // becomes rope_scaling in config.json
  if (config.tied_head) {
    used.insert("output.weight");  // the embedding again
  }
  std::vector<LazyTensor> weights;
  for (const auto& item : shape.named_parameters()) {
    const GgufPlace place = place_of(item.key(), places);
    const io::GgufTensor* const tensor =
        &find_tensor(file, place.name, gguf_shape(item.value().sizes().vec(), place));
    used.insert(place.name);
    weights.push_back({item.key(), dtype, item.value().sizes().vec(), [file, tensor, dtype, place] {
                         return transformers_order(file.load(*tensor), place).to(dtype);
                       }});
  }
  refuse_leftovers(file, config, used);
  return weights;
}

std::vector<io::GgufOutput> exported_tensors(const Model& model,
                                             io::GgufType type,
                                             std::vector<std::string>& warnings) {
  const ModelConfig& config = model.config();
  const auto places = gguf_places(config);
  std::vector<io::GgufOutput> tensors;
  const auto add = [&](const GgufPlace& place, const at::Tensor& weight) {
    const auto shape = gguf_shape(weight.sizes().vec(), place);
    tensors.push_back(
        {place.name, type_of(place.name, shape, type, warnings), shape, [place, weight] {
           return gguf_order(weight, place);
         }});
  };
  if (const auto divisors = rope_divisors(config); !divisors.empty()) {
    add({kRopeDivisors}, at::tensor(divisors, at::kFloat));
  }
  for (const auto& item : model.named_parameters()) {
    add(place_of(item.key(), places), item.value().detach());
  }
  if (config.tied_head && gguf_family(config)->repeats_tied_head) {
    const std::string embedding = architecture_of(config).embedding + ".weight";
    add({"output.weight"}, model.named_parameters()[embedding].detach());
  }
  return tensors;
}

}  // namespace reprise::convert
