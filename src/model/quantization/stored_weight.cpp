#include "model/quantization/stored_weight.h"

#include "model/families/config_reader.h"
#include "quant/tables.h"

#include <reprise/io/dtype.h>
#include <reprise/io/json.h>

#include <ATen/ATen.h>

#include <cmath>
#include <string_view>
#include <utility>

namespace reprise {

namespace {

constexpr const char* kState = ".quant_state.bitsandbytes__";

// Scales are magnitudes.
void check_finite(const at::Tensor& scales, const std::string& name) {
  const bool is_finite = at::isfinite(scales).all().item<bool>();
  TORCH_CHECK(is_finite && (scales >= 0).all().item<bool>(),
              "[quant] ",
              name,
              ": expected finite scales of at least 0, found ",
              is_finite ? "negative ones" : "others");
}

// Kernels have the table of the format; a file with another one means something else.
void check_table(const at::Tensor& found, const at::Tensor& expected, const std::string& name) {
  constexpr double kTolerance = 1e-6;  // other devices round the last bit otherwise
  TORCH_CHECK(at::isfinite(found).all().item<bool>() &&
                  (found - expected).abs().max().item<double>() <= kTolerance,
              "[quant] ",
              name,
              ": expected the table of its format, found other numbers.");
}

at::Tensor table_of(QuantFormat format) {
  const auto& numbers = quant::numbers_of(format);
  return at::tensor(std::vector<float>(numbers.begin(), numbers.end()), at::kFloat);
}

// The JSON in the tensor of bytes.
Json read_state(NamedStore& store, const std::string& name) {
  constexpr int64_t kMostBytes = 1 << 16;
  const TensorInfo* info = store.find(name);
  const std::string source = store.stored_name(name);
  TORCH_CHECK(info != nullptr && info->shape.size() == 1 && info->shape[0] <= kMostBytes,
              "[quant] ",
              source,
              ": expected a tensor of up to ",
              kMostBytes,
              " bytes, found ",
              info == nullptr ? "none" : c10::str(info->shape));
  const auto bytes = store.take(name, at::kByte, info->shape).contiguous();
  const std::string_view text(reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()),
                              static_cast<size_t>(bytes.numel()));
  Json state = parse_json(text, source);
  TORCH_CHECK(
      state.is_object(), "[quant] ", source, ": expected an object, found ", kind_of(state));
  return state;
}

void read_nested(NamedStore& store,
                 const std::string& name,
                 ConfigReader& state,
                 quant::QuantizedWeight& weight) {
  state.require("nested_blocksize", quant::kNestedBlock);
  state.require("nested_dtype", "float32");
  const int64_t count = (weight.blocks() + quant::kNestedBlock - 1) / quant::kNestedBlock;
  weight.nested_scales = store.take(name + ".nested_absmax", at::kFloat, {count});
  check_finite(weight.nested_scales, store.stored_name(name) + ".nested_absmax");
  weight.nested_map = store.take(name + ".nested_quant_map", at::kFloat, {quant::kCodes8});
  check_table(
      weight.nested_map, quant::dynamic_map(), store.stored_name(name) + ".nested_quant_map");
  const Json* offset = state.find({"nested_offset"});
  if (offset == nullptr || !offset->is_number() ||
      !std::isfinite(static_cast<float>(offset->get<double>()))) {
    state.refuse("nested_offset", "a finite number", offset == nullptr ? Json() : *offset);
  }
  weight.offset = static_cast<float>(offset->get<double>());
}

void read_4bit(NamedStore& store, const std::string& name, quant::QuantizedWeight& weight) {
  const std::string format = name_of(weight.scheme.format);
  const Json json = read_state(store, name + kState + format);
  ConfigReader state(json, store.stored_name(name) + kState + format);
  state.require("quant_type", format);
  weight.scheme.block = state.size({"blocksize"});
  check_scheme(weight.scheme);
  const std::string type = state.text_or({"dtype"}, "");
  if (!dtype_named(type)) {
    state.refuse("dtype", "float32, bfloat16 or float16", type);
  }
  weight.source_type = *dtype_named(type);
  const Json shape = Json::array({weight.out, weight.in});
  if (const Json* found = state.find({"shape"}); found == nullptr || *found != shape) {
    state.refuse("shape", shape.dump() + " (by config.json)", found == nullptr ? Json() : *found);
  }
  weight.packed = store.take(name, at::kByte, {(weight.out * weight.in + 1) / 2, 1});
  check_table(store.take(name + ".quant_map", at::kFloat, {quant::kCodes4}),
              table_of(weight.scheme.format),
              store.stored_name(name) + ".quant_map");
  const bool is_double = weight.scheme.double_quant;
  weight.scales =
      store.take(name + ".absmax", is_double ? at::kByte : at::kFloat, {weight.blocks()});
  if (is_double) {
    read_nested(store, name, state, weight);
  } else {
    check_finite(weight.scales, store.stored_name(name) + ".absmax");
  }
}

void read_int8(NamedStore& store, const std::string& path, quant::QuantizedWeight& weight) {
  weight.packed = store.take(path + ".weight", at::kChar, {weight.out, weight.in});
  weight.scales = store.take(path + ".SCB", at::kFloat, {weight.out});
  check_finite(weight.scales, store.stored_name(path + ".SCB"));
  const std::string format = path + ".weight_format";
  if (store.find(format) != nullptr) {
    const auto number = store.take(format, at::kByte, {});
    TORCH_CHECK(number.item<uint8_t>() == 0,
                "[quant] ",
                store.stored_name(format),
                ": expected 0 (row by row), found ",
                static_cast<int>(number.item<uint8_t>()));
  }
}

LazyTensor lazy(const std::string& name, const at::Tensor& tensor) {
  return {
      name, tensor.scalar_type(), tensor.sizes().vec(), [tensor] { return tensor.to(at::kCPU); }};
}

// In Python's spelling, so that a folder that is read and written again has the same bytes.
std::string state_text(const quant::QuantizedWeight& weight) {
  std::string text = std::string(R"({"quant_type": ")") + name_of(weight.scheme.format) +
                     R"(", "blocksize": )" + std::to_string(weight.scheme.block) +
                     R"(, "dtype": ")" + dtype_name(weight.source_type) + R"(", "shape": [)" +
                     std::to_string(weight.out) + ", " + std::to_string(weight.in) + "]";
  if (weight.is_nested()) {
    text += R"(, "nested_blocksize": )" + std::to_string(quant::kNestedBlock) +
            R"(, "nested_dtype": "float32", "nested_offset": )" + Json(weight.offset).dump();
  }
  return text + "}";
}

// What there is instead of what was expected, for messages.
std::string what_is_there(const TensorInfo* info) {
  return info == nullptr ? "no such tensor"
                         : c10::str(c10::toString(info->dtype), " ", c10::IntArrayRef(info->shape));
}

}  // namespace

std::string NamedStore::stored_name(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? name : found->second;
}

const TensorInfo* NamedStore::find(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : checkpoint_.find(found->second);
}

at::Tensor NamedStore::take(const std::string& name, at::ScalarType type, at::IntArrayRef shape) {
  const TensorInfo* info = find(name);
  TORCH_CHECK(info != nullptr && info->dtype == type && shape == info->shape,
              "[quant] ",
              stored_name(name),
              ": expected ",
              c10::toString(type),
              " ",
              shape,
              ", found ",
              what_is_there(info));
  return take_out(name, *info, type);
}

at::Tensor NamedStore::take_as(const std::string& name,
                               at::ScalarType type,
                               at::IntArrayRef shape) {
  const TensorInfo* info = find(name);
  TORCH_CHECK(info != nullptr && at::isFloatingType(info->dtype) && shape == info->shape,
              "[quant] ",
              stored_name(name),
              ": expected floating point ",
              shape,
              " to quantise, found ",
              what_is_there(info));
  return take_out(name, *info, type);
}

at::Tensor NamedStore::take_out(const std::string& name,
                                const TensorInfo& info,
                                at::ScalarType type) {
  auto tensor = at::empty(info.shape, type);
  checkpoint_.copy_to(info.name, tensor);
  names_.erase(name);
  return tensor;
}

quant::QuantizedWeight read_stored_weight(NamedStore& store,
                                          const std::string& path,
                                          int64_t out,
                                          int64_t in,
                                          const QuantScheme& scheme) {
  quant::QuantizedWeight weight{.scheme = scheme, .out = out, .in = in};
  if (scheme.format == QuantFormat::Int8) {
    read_int8(store, path, weight);
  } else {
    read_4bit(store, path + ".weight", weight);
  }
  quant::check(weight, path + ".weight");
  return weight;
}

std::vector<LazyTensor> stored_tensors(const std::string& path,
                                       const quant::QuantizedWeight& weight) {
  const std::string name = path + ".weight";
  std::vector<LazyTensor> tensors{lazy(name, weight.packed)};
  if (weight.scheme.format == QuantFormat::Int8) {
    tensors.push_back(lazy(path + ".SCB", weight.scales));
    tensors.push_back(lazy(path + ".weight_format", at::zeros({}, at::kByte)));
    return tensors;
  }
  tensors.push_back(lazy(name + ".absmax", weight.scales));
  tensors.push_back(lazy(name + ".quant_map", table_of(weight.scheme.format)));
  if (weight.is_nested()) {
    tensors.push_back(lazy(name + ".nested_absmax", weight.nested_scales));
    tensors.push_back(lazy(name + ".nested_quant_map", weight.nested_map));
  }
  const std::string text = state_text(weight);
  const auto bytes = at::tensor(std::vector<int64_t>(text.begin(), text.end())).to(at::kByte);
  tensors.push_back(lazy(name + kState + name_of(weight.scheme.format), bytes));
  return tensors;
}

}  // namespace reprise
