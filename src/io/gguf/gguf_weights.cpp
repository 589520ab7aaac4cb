// Names, shapes and the order of rows. Every tensor of the file is used exactly once. A tensor that
// is left over is an error, because dropping it would change the model.
#include "io/gguf/gguf_weights.h"

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <set>
#include <string>
#include <utility>

namespace reprise::io {
namespace {

/// A tensor: its names in the GGUF file and in transformers, its shape, and the number of heads if
/// its rows must be reordered for the rotary embedding.
struct Entry {
  std::string from;
  std::string to;
  std::vector<int64_t> shape;
  int64_t rotary_heads = 0;
};

void add_block(std::vector<Entry>& entries,
               const GgufFile& file,
               const LlamaSizes& sizes,
               int64_t i) {
  const std::string from = "blk." + std::to_string(i) + ".";
  const std::string to = "model.layers." + std::to_string(i) + ".";
  const int64_t q = sizes.heads * sizes.head_dim;
  const int64_t kv = sizes.kv_heads * sizes.head_dim;
  const std::vector<Entry> linears = {
      {"attn_q", "self_attn.q_proj", {q, sizes.hidden}, sizes.heads},
      {"attn_k", "self_attn.k_proj", {kv, sizes.hidden}, sizes.kv_heads},
      {"attn_v", "self_attn.v_proj", {kv, sizes.hidden}},
      {"attn_output", "self_attn.o_proj", {sizes.hidden, q}},
      {"ffn_gate", "mlp.gate_proj", {sizes.intermediate, sizes.hidden}},
      {"ffn_up", "mlp.up_proj", {sizes.intermediate, sizes.hidden}},
      {"ffn_down", "mlp.down_proj", {sizes.hidden, sizes.intermediate}},
  };
  for (const Entry& linear : linears) {
    entries.push_back({from + linear.from + ".weight",
                       to + linear.to + ".weight",
                       linear.shape,
                       linear.rotary_heads});
    // config.json has one switch for the biases of attention and one for those of the MLP.
    const bool is_attention = linear.from.starts_with("attn");
    if (file.find(is_attention ? "blk.0.attn_q.bias" : "blk.0.ffn_up.bias") != nullptr) {
      entries.push_back({from + linear.from + ".bias",
                         to + linear.to + ".bias",
                         {linear.shape[0]},
                         linear.rotary_heads});
    }
  }
  entries.push_back({from + "attn_norm.weight", to + "input_layernorm.weight", {sizes.hidden}});
  entries.push_back(
      {from + "ffn_norm.weight", to + "post_attention_layernorm.weight", {sizes.hidden}});
}

std::vector<Entry> expected_tensors(const GgufFile& file, const LlamaSizes& sizes) {
  std::vector<Entry> entries = {
      {"token_embd.weight", "model.embed_tokens.weight", {sizes.vocabulary, sizes.hidden}}};
  for (int64_t i = 0; i < sizes.layers && entries.size() <= file.tensors().size(); ++i) {
    add_block(entries, file, sizes, i);
  }
  entries.push_back({"output_norm.weight", "model.norm.weight", {sizes.hidden}});
  if (file.find("output.weight") != nullptr) {
    entries.push_back({"output.weight", "lm_head.weight", {sizes.vocabulary, sizes.hidden}});
  }
  return entries;
}

// Note [Rotary order of rows]
// transformers rotates dimension i of a head with dimension i + half; llama.cpp rotates neighbours.
// So its converter stores row i of a head at 2 i and row i + half at 2 i + 1, and the way back
// splits each head into (half, 2) and transposes the two.
at::Tensor transformers_order(const at::Tensor& weight, int64_t heads) {
  const int64_t half = weight.size(0) / heads / 2;
  return weight.reshape({heads, half, 2, -1}).transpose(1, 2).reshape(weight.sizes());
}

void check_shape(const GgufTensor& tensor, const Entry& entry, const std::string& where) {
  TORCH_CHECK(tensor.shape == entry.shape,
              where,
              "tensor \"",
              entry.from,
              "\": expected shape ",
              at::IntArrayRef(entry.shape),
              ", found ",
              at::IntArrayRef(tensor.shape));
}

}  // namespace

at::Tensor GgufFile::load(const GgufTensor& tensor) const {
  at::Tensor values = at::empty(tensor.shape, at::kFloat);
  read(tensor, {values.mutable_data_ptr<float>(), static_cast<size_t>(values.numel())});
  return values;
}

std::vector<LazyTensor> llama_weights(const GgufFile& file,
                                      const LlamaSizes& sizes,
                                      at::ScalarType dtype) {
  const std::string where = "[gguf] " + file.path().string() + ": ";
  std::set<std::string> used = {"rope_freqs.weight"};  // becomes rope_scaling in config.json
  std::vector<LazyTensor> weights;
  for (const Entry& entry : expected_tensors(file, sizes)) {
    const GgufTensor* const tensor = file.find(entry.from);
    TORCH_CHECK(tensor != nullptr, where, "expected a tensor \"", entry.from, "\", found none");
    check_shape(*tensor, entry, where);
    used.insert(entry.from);
    weights.push_back(
        {entry.to, dtype, entry.shape, [file, tensor, dtype, heads = entry.rotary_heads] {
           const at::Tensor weight = file.load(*tensor);
           return (heads == 0 ? weight : transformers_order(weight, heads)).to(dtype);
         }});
  }
  for (const GgufTensor& tensor : file.tensors()) {
    TORCH_CHECK(used.contains(tensor.name),
                where,
                "tensor \"",
                tensor.name,
                "\": not part of a llama model of ",
                sizes.layers,
                " layers");
  }
  return weights;
}

}  // namespace reprise::io
