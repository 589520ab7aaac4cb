// Folders of quantised models: written as they were read, and refused with the tensor and what was
// expected where a file does not say what a quantised weight is.
#include "model/quantized_case.h"
#include "support/temporary_folder.h"

#include <reprise/io/file.h>
#include <reprise/io/safetensors.h>

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>

namespace reprise {
namespace {

namespace fs = std::filesystem;

using testing::contains;
using testing::message_of;
using testing::quant_folder;

using Tensors = std::map<std::string, at::Tensor>;

constexpr const char* kWeight = "model.layers.0.mlp.up_proj.weight";

Tensors tensors_of(const fs::path& folder) {
  const TensorCheckpoint checkpoint(folder);
  Tensors tensors;
  for (const auto& name : checkpoint.names()) {
    tensors[name] = checkpoint.view(name).clone();
  }
  return tensors;
}

at::Tensor bytes_of(const std::string& text) {
  return torch::tensor(std::vector<int64_t>(text.begin(), text.end())).to(at::kByte);
}

std::string text_of(const at::Tensor& bytes) {
  return {reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()),
          static_cast<size_t>(bytes.numel())};
}

// A copy of a quantised folder with some tensors and fields of quantization_config changed.
struct Damage {
  std::string name = "llama_nf4";
  std::function<void(Tensors&)> tensors = [](Tensors&) {};
  std::function<void(Json&)> config = [](Json&) {};
};

std::string refusal_of(const Damage& damage) {
  const testing::TemporaryFolder folder;
  auto tensors = tensors_of(quant_folder(damage.name));
  damage.tensors(tensors);
  write_checkpoint(folder.path(), {tensors.begin(), tensors.end()});
  Json config = read_json(quant_folder(damage.name) / "config.json");
  damage.config(config["quantization_config"]);
  write_json(folder.path() / "config.json", config);
  return message_of<c10::Error>([&] { load_model(folder.path()); });
}

class QuantizedFolder : public ::testing::TestWithParam<testing::QuantizedCase> {};

TEST_P(QuantizedFolder, IsWrittenAgainAsTransformersWroteIt) {
  const auto source = quant_folder(GetParam().name);
  const auto model = testing::open_quantized(GetParam().name);
  const testing::TemporaryFolder out;
  save_model(*model, out.path());
  const auto found = tensors_of(out.path()), expected = tensors_of(source);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    if (name.ends_with("quant_map")) {  // there +0 twice, in bitsandbytes' kernels +0 and -0
      EXPECT_TRUE(torch::equal(found.at(name), tensor)) << name;
    } else {
      EXPECT_TRUE(testing::bitwise_equal(found.at(name), tensor)) << name;
    }
  }
  EXPECT_EQ(read_json(out.path() / "config.json")["quantization_config"],
            read_json(source / "config.json")["quantization_config"]);
  const auto again = load_model(out.path()).model;
  EXPECT_TRUE(testing::bitwise_equal(testing::logits_of(*again, testing::plain_input()),
                                     testing::logits_of(*model, testing::plain_input())));
}

TEST_P(QuantizedFolder, OfAModelQuantizedOnLoadIsTheSame) {
  const auto [name, base, config] = GetParam();
  const auto model = load_model(quant_folder(base), {.quantization = config}).model;
  const testing::TemporaryFolder out;
  save_model(*model, out.path());
  for (const auto& [tensor_name, tensor] : tensors_of(quant_folder(name))) {
    EXPECT_TRUE(torch::equal(tensors_of(out.path()).at(tensor_name), tensor)) << tensor_name;
  }
}

TEST_P(QuantizedFolder, IsNoLongerOneOnceItIsDequantized) {
  const auto model = testing::open_quantized(GetParam().name);
  dequantize_model(*model, at::kFloat);
  const testing::TemporaryFolder out;
  save_model(*model, out.path());
  EXPECT_FALSE(read_json(out.path() / "config.json").contains("quantization_config"));
  const auto plain = load_model(out.path()).model;
  EXPECT_FALSE(is_quantized(*plain));
  EXPECT_TRUE(testing::bitwise_equal(testing::logits_of(*plain, testing::plain_input()),
                                     testing::logits_of(*model, testing::plain_input())));
}

INSTANTIATE_TEST_SUITE_P(Formats,
                         QuantizedFolder,
                         ::testing::ValuesIn(testing::quantized_cases()),
                         [](const auto& test) { return test.param.name; });

TEST(DamagedQuantizedFolder, LacksATensor) {
  for (const char* end : {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"}) {
    const std::string name = std::string(kWeight) + end;
    const auto message = refusal_of({.tensors = [&](Tensors& all) { all.erase(name); }});
    EXPECT_TRUE(contains(message, name)) << message;
    EXPECT_TRUE(contains(message, "found no such tensor"));
  }
  EXPECT_TRUE(contains(refusal_of({.tensors =
                                       [](Tensors& all) {
                                         all.erase(std::string(kWeight) +
                                                   ".quant_state.bitsandbytes__nf4");
                                       }}),
                       "quant_state.bitsandbytes__nf4"));
  EXPECT_TRUE(contains(
      refusal_of({.name = "llama_int8",
                  .tensors = [](Tensors& all) { all.erase("model.layers.0.mlp.up_proj.SCB"); }}),
      "model.layers.0.mlp.up_proj.SCB: expected Float [40], found no such tensor"));
  EXPECT_TRUE(contains(refusal_of({.tensors = [](Tensors& all) { all.erase(kWeight); }}), kWeight));
}

TEST(DamagedQuantizedFolder, HasTensorsThatDoNotFit) {
  const auto changed = [](const std::string& end, const at::Tensor& value) {
    return refusal_of({.tensors = [&](Tensors& all) { all[kWeight + end] = value; }});
  };
  EXPECT_TRUE(contains(changed("", torch::zeros({479, 1}, torch::kByte)),
                       "expected Byte [480, 1], found Byte [479, 1]"));
  EXPECT_TRUE(contains(changed("", torch::zeros({40, 24}, torch::kChar)),
                       "expected Byte [480, 1], found Char [40, 24]"));
  EXPECT_TRUE(contains(changed(".absmax", torch::zeros({14}, torch::kByte)),
                       "expected Byte [15], found Byte [14]"));
  EXPECT_TRUE(
      contains(changed(".absmax", torch::zeros({15})), "expected Byte [15], found Float [15]"));
  EXPECT_TRUE(contains(changed(".nested_absmax", torch::zeros({2})),
                       "expected Float [1], found Float [2]"));
  EXPECT_TRUE(contains(changed(".extra", torch::zeros({2})), "does not have"));
}

TEST(DamagedQuantizedFolder, HasScalesThatAreNone) {
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -1.0}) {
    const auto set = [&](const std::string& name) {
      return [name, value](Tensors& all) { all.at(name)[0] = value; };
    };
    EXPECT_TRUE(contains(refusal_of({.tensors = set(std::string(kWeight) + ".nested_absmax")}),
                         "nested_absmax: expected finite scales"));
    EXPECT_TRUE(contains(
        refusal_of({.name = "llama_fp4", .tensors = set(std::string(kWeight) + ".absmax")}),
        "absmax: expected finite scales"));
    EXPECT_TRUE(contains(
        refusal_of({.name = "llama_int8", .tensors = set("model.layers.0.mlp.up_proj.SCB")}),
        "SCB: expected finite scales"));
  }
}

TEST(DamagedQuantizedFolder, HasTablesOfAnotherFormat) {
  for (const char* end : {".quant_map", ".nested_quant_map"}) {
    const std::string name = std::string(kWeight) + end;
    EXPECT_TRUE(contains(refusal_of({.tensors = [&](Tensors& all) { all.at(name)[3] = 0.75; }}),
                         name + ": expected the table of its format"));
    EXPECT_TRUE(contains(refusal_of({.tensors =
                                         [&](Tensors& all) {
                                           all.at(name)[3] =
                                               std::numeric_limits<double>::quiet_NaN();
                                         }}),
                         name + ": expected the table of its format"));
  }
}

TEST(DamagedQuantizedFolder, HasAStateThatIsNone) {
  const std::string name = std::string(kWeight) + ".quant_state.bitsandbytes__nf4";
  const auto with_text = [&](const std::function<std::string(std::string)>& edit) {
    return refusal_of(
        {.tensors = [&](Tensors& all) { all[name] = bytes_of(edit(text_of(all[name]))); }});
  };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    return with_text([&](std::string text) {
      const size_t at = text.find(from);
      EXPECT_NE(at, std::string::npos) << from;
      return text.replace(at, from.size(), to);
    });
  };
  EXPECT_TRUE(contains(with_text([](const auto&) { return "{"; }), name));
  EXPECT_TRUE(contains(with_text([](const auto&) { return "[]"; }), "expected an object"));
  EXPECT_TRUE(contains(with_text([](const auto&) { return std::string(70000, ' '); }),
                       "expected a tensor of up to"));
  EXPECT_TRUE(contains(replaced("[40, 24]", "[24, 40]"), "shape: expected [40,24]"));
  EXPECT_TRUE(
      contains(replaced("\"blocksize\": 64", "\"blocksize\": 63"), "expected blocks of 32, 64"));
  EXPECT_TRUE(contains(replaced("\"blocksize\": 64", "\"blocksize\": 128"), "expected Byte [8]"));
  EXPECT_TRUE(contains(replaced("\"quant_type\": \"nf4\"", "\"quant_type\": \"af4\""),
                       "quant_type: expected \"nf4\""));
  EXPECT_TRUE(contains(replaced("\"dtype\": \"float32\"", "\"dtype\": \"int8\""),
                       "dtype: expected float32, bfloat16 or float16"));
  EXPECT_TRUE(contains(replaced("256", "128"), "nested_blocksize: expected 256"));
  EXPECT_TRUE(contains(replaced("\"nested_offset\": ", "\"nested_offset\": \"x\", \"y\": "),
                       "nested_offset: expected a finite number"));
}

TEST(DamagedQuantizedFolder, HasAConfigThatIsNotSupported) {
  const auto set = [](const char* field, const Json& value) {
    return refusal_of({.config = [&](Json& config) { config[field] = value; }});
  };
  EXPECT_TRUE(contains(set("quant_method", "gptq"), "quant_method: expected bitsandbytes"));
  EXPECT_TRUE(contains(set("bnb_4bit_quant_type", "int4"), "expected nf4 or fp4"));
  EXPECT_TRUE(contains(set("bnb_4bit_quant_type", "fp4"), "quant_state.bitsandbytes__fp4"));
  EXPECT_TRUE(contains(set("bnb_4bit_quant_storage", "bfloat16"), "bnb_4bit_quant_storage"));
  EXPECT_TRUE(contains(set("bnb_4bit_compute_dtype", "int8"), "bnb_4bit_compute_dtype"));
  EXPECT_TRUE(contains(set("load_in_8bit", true), "one of load_in_4bit and load_in_8bit"));
  EXPECT_TRUE(contains(set("bnb_4bit_use_double_quant", false), "expected Float [9], found Byte"));
  EXPECT_TRUE(contains(set("llm_int8_skip_modules", "lm_head"), "an array of names"));
  EXPECT_TRUE(
      contains(refusal_of({.config = [](Json& config) { config = "nf4"; }}), "expected an object"));
}

TEST(DamagedQuantizedFolder, HasNoQuantizedWeight) {
  EXPECT_TRUE(contains(
      refusal_of({.tensors = [](Tensors& all) { all = tensors_of(quant_folder("llama")); }}),
      "expected quantised weights, as config.json has quantization_config"));
}

TEST(DamagedQuantizedFolder, HasAQuantizedHead) {
  EXPECT_TRUE(
      contains(refusal_of({.tensors =
                               [](Tensors& all) {
                                 all["lm_head.weight"] = torch::zeros({768, 1}, torch::kByte);
                               }}),
               "expected a head that is not quantised"));
}

TEST(DamagedQuantizedFolder, IsStoredInAnotherOrder) {
  EXPECT_TRUE(contains(
      refusal_of(
          {.name = "llama_int8",
           .tensors =
               [](Tensors& all) { all.at("model.layers.0.mlp.up_proj.weight_format").fill_(2); }}),
      "weight_format: expected 0 (row by row), found 2"));
}

TEST(Adapters, OfAnotherWidthAreRefusedOnAQuantizedBase) {
  const testing::TemporaryFolder folder;
  fs::copy(quant_folder("llama_adapter"), folder.path(), fs::copy_options::recursive);
  const TensorFile file(folder.path() / "adapter_model.safetensors");
  NamedTensors tensors;
  for (const auto& info : file.tensors()) {
    tensors.emplace_back(info.name, torch::zeros({4, 8}));
  }
  write_safetensors(folder.path() / "adapter_model.safetensors", tensors);
  const auto model = testing::open_quantized("llama_nf4");
  EXPECT_TRUE(contains(message_of<c10::Error>([&] { load_adapter(*model, folder.path()); }),
                       "expected the shape"));
  EXPECT_FALSE(has_lora(*model));
}

}  // namespace
}  // namespace reprise
