// Models without memory of their own: parameters that are views of files, and parameters that
// several processes keep parts of, saved by all of them.
#include "model/model_case.h"
#include "support/bitwise.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "support/tensor_parts.h"
#include "support/tensors.h"
#include "support/thread_world.h"

#include <reprise/io/file.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>
#include <reprise/memory.h>
#include <reprise/model/lora.h>
#include <reprise/model/pretrained.h>

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>

namespace reprise::testing {
namespace {

namespace fs = std::filesystem;

at::Tensor forward(Model& model) {
  ModelInput input;
  input.input_ids = torch::arange(1, 9).reshape({2, 4});
  return model.forward(input);
}

at::Tensor logits(Model& model) {
  const at::NoGradGuard no_grad;
  return forward(model);
}

LoraConfig small_adapters() {
  LoraConfig config;
  config.rank = 2;
  return config;
}

TEST(Mapped, ModelsAreThoseThatAreCopied) {
  for (const char* name : {"llama",
                           "llama_untied",
                           "gpt2",
                           "gpt_neox",
                           "chatglm2",
                           "qwen3",
                           "bloom",
                           "opt_post_norm"}) {
    SCOPED_TRACE(name);
    const auto copied = load_model(model_folder(name)).model;
    const auto mapped = load_model(model_folder(name), {.mapped = true}).model;
    const auto expected = copied->named_parameters(), found = mapped->named_parameters();
    ASSERT_EQ(found.keys(), expected.keys());
    for (const auto& item : expected) {
      EXPECT_TRUE(bitwise_equal(found[item.key()], item.value())) << item.key();
      EXPECT_TRUE(found[item.key()].requires_grad());
    }
    EXPECT_TRUE(bitwise_equal(logits(*mapped), logits(*copied)));
  }
}

TEST(Mapped, TakeNoMemory) {
  const TemporaryFolder folder;
  Json config = read_json(model_folder("llama_untied") / "config.json");
  config["vocab_size"] = 100'000;  // tensors of less than 1 MiB are read
  const auto large = ModelConfig::from_json(config, "config.json");
  save_model(Model(large, HeadKind::CausalLm), folder / "model");
  const PeakTracker tracker(at::kCPU);
  const auto model = load_model(folder / "model", {.mapped = true}).model;
  int64_t bytes = 0;
  for (const auto& parameter : model->parameters()) {
    bytes += static_cast<int64_t>(parameter.nbytes());
  }
  EXPECT_LT(tracker.extra(), bytes / 20);
}

TEST(Mapped, KeepTheStoredTypesAndMakeAHeadInMemory) {
  const TemporaryFolder folder;
  const auto source = load_model(model_folder("llama")).model;
  save_model(*source, folder.path(), {.dtype = at::kBFloat16});
  NamedTensors mixed;
  const TensorCheckpoint saved(folder.path());
  for (const auto& name : saved.names()) {
    const bool is_norm = name.ends_with("norm.weight");
    mixed.emplace_back(name, saved.view(name).to(is_norm ? at::kFloat : at::kBFloat16).clone());
  }
  write_checkpoint(folder.path(), mixed);
  const LoadOptions options = {.head = HeadKind::Score, .seed = 7, .mapped = true};
  const auto model = load_model(folder.path(), options).model;
  for (const auto& [name, tensor] : mixed) {
    EXPECT_TRUE(bitwise_equal(model->named_parameters()[name], tensor)) << name;
  }
  const auto whole = load_model(folder.path(), {.head = HeadKind::Score, .seed = 7}).model;
  const std::string head = model->head_path() + ".weight";
  EXPECT_TRUE(bitwise_equal(model->named_parameters()[head], whole->named_parameters()[head]));
}

TEST(Mapped, TakeAdapters) {
  const auto model = load_model(model_folder("llama"), {.mapped = true}).model;
  const auto before = logits(*model);
  add_lora(*model, small_adapters(), /*seed=*/1);
  EXPECT_TRUE(bitwise_equal(logits(*model), before));
  forward(*model).sum().backward();
  for (const auto& [name, parameter] : trained_parameters(*model)) {
    EXPECT_TRUE(parameter.is_cpu() && parameter.scalar_type() == at::kFloat) << name;
    EXPECT_TRUE(parameter.grad().defined()) << name;
  }
}

TEST(Mapped, RefusesADtypeADeviceAndFilesThatDoNotFit) {
  expect_error([] { load_model(model_folder("llama"), {.dtype = at::kHalf, .mapped = true}); },
               "give neither dtype nor device");
  expect_error([] { load_model(model_folder("llama"), {.device = at::kCUDA, .mapped = true}); },
               "give neither dtype nor device");
  const TemporaryFolder folder;
  fs::copy(model_folder("llama"), folder.path(), fs::copy_options::recursive);
  const auto file = folder / "model.safetensors";
  fs::permissions(file, fs::perms::owner_write, fs::perm_options::add);
  fs::resize_file(file, fs::file_size(file) - 4);
  expect_error([&] { load_model(folder.path(), {.mapped = true}); }, "model.safetensors");
}

/// Keeps slices; the parameters themselves are of no use.
class SlicedParameters final : public ShardedParameters {
 public:
  SlicedParameters(const Model& model, const World& world) : world_(world) {
    const at::NoGradGuard no_grad;
    for (const auto& parameter : model.parameters()) {
      kept_.emplace_back(parameter, parameter.detach().clone());
      parameter.detach().fill_(std::numeric_limits<double>::quiet_NaN());
    }
  }

  at::Tensor enter(size_t, at::Tensor x) override { return x; }
  at::Tensor leave(size_t, at::Tensor y) override { return y; }
  const World& world() const override { return world_; }
  TensorPart part_of(const std::string& name, const at::Tensor& parameter) const override {
    for (const auto& [known, values] : kept_) {
      if (known.is_same(parameter)) {
        return part_here(name, values, world_);
      }
    }
    TORCH_CHECK(false, "no parameter ", name);
  }
  void refresh() override {}
  void settle() override {}
  int64_t bytes() const override { return 0; }
  void unshard() override {}
  void reshard() override {}

 private:
  const World& world_;
  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;
};

void expect_same_folders(const TemporaryFolder& a, const TemporaryFolder& b) {
  ASSERT_EQ(a.names(), b.names());
  for (const std::string& name : a.names()) {
    EXPECT_TRUE(read_file(a / name) == read_file(b / name)) << name;
  }
}

TEST(Kept, ModelsAreSavedAsOneProcessSavesThem) {
  for (const char* name : {"llama", "chatglm2"}) {
    for (const uint64_t max_shard_bytes : {uint64_t{1} << 30, uint64_t{4000}}) {
      const TemporaryFolder expected, found;
      SaveOptions options{.source = model_folder(name), .dtype = at::kBFloat16};
      options.max_shard_bytes = max_shard_bytes;
      save_model(*load_model(model_folder(name)).model, expected.path(), options);
      run_in_world(3, [&](const World& world) {
        const auto model = load_model(model_folder(name)).model;
        model->set_sharded_parameters(std::make_shared<SlicedParameters>(*model, world));
        save_model(*model, found.path(), options);
      });
      expect_same_folders(found, expected);
    }
  }
}

TEST(Kept, AdaptersAreSavedAsOneProcessSavesThem) {
  LoraConfig config = small_adapters();
  config.modules_to_save = {"embed_tokens"};
  const auto adapted = [&] {
    auto model = load_model(model_folder("llama_untied")).model;
    add_lora(*model, config, /*seed=*/3);
    return model;
  };
  const TemporaryFolder expected, found;
  save_adapter(*adapted(), expected.path(), config);
  run_in_world(2, [&](const World& world) {
    const auto model = adapted();
    model->set_sharded_parameters(std::make_shared<SlicedParameters>(*model, world));
    save_adapter(*model, found.path(), config);
  });
  expect_same_folders(found, expected);
}

TEST(Kept, AFolderThatCannotBeMadeIsAnErrorInAllProcesses) {
  const TemporaryFolder folder;
  write_file(folder / "file", "");
  run_in_world(2, [&](const World& world) {
    const auto model = load_model(model_folder("llama")).model;
    model->set_sharded_parameters(std::make_shared<SlicedParameters>(*model, world));
    expect_error([&] { save_model(*model, folder / "file"); }, "cannot create the folder");
  });
}

}  // namespace
}  // namespace reprise::testing
