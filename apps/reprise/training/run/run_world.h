// The processes of a run: rank and device of this one, and checks that all of them have the same
// flags, models and data. A process that was not launched as part of a world is a world of one.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/dist/world.h>
#include <reprise/io/json.h>
#include <reprise/model/pretrained.h>
#include <reprise/parallel/shard.h>

#include <c10/core/Device.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace reprise::app {

/// Must outlive every model that it has sharded.
class RunWorld {
 public:
  /// Joins the world of the environment variables. Throws in all processes if their flags differ,
  /// and for flags without effect in a world of this size.
  RunWorld(const TrainingFlags& flags, const Json& configuration);

  const World& world() const { return joined_ ? *joined_ : World::single(); }
  bool is_first() const { return world().is_first(); }
  /// Whether this process was launched as part of a world, which may have one process.
  bool is_joined() const { return joined_ != nullptr; }
  c10::Device device() const { return device_; }
  /// "4 processes, fsdp"
  std::string describe() const;

  /// Throws in all processes if the configuration or weights of a model differ between them.
  /// Compares sizes and samples of the content, so machines may have their own copies.
  void check_same_model(const std::filesystem::path& folder) const;
  /// The same for the trained parameters of a model, to the last bit: adapters may begin with what
  /// each process computes of the weights.
  void check_same_start(const Model& model) const;
  /// The same for data files, tokenizer and chat template.
  void check_same_data(const TrainingFlags& flags) const;

  /// How to load a model with this data type onto this process's device. Under fsdp the weights
  /// stay in their files until the model is sharded, if they `may_be_mapped`.
  LoadOptions load_options(std::optional<at::ScalarType> dtype, bool may_be_mapped) const;
  /// Shards a model with its adapters; does nothing without a world. `dtype`: that of
  /// load_options().
  void shard_trained(Model& model, std::optional<at::ScalarType> dtype) const;
  /// Shards a reference, teacher or reward model; only under fsdp.
  void shard_frozen(Model& model, std::optional<at::ScalarType> dtype) const;

  /// Runs `work`. If it throws, the other processes get the error message before this one is gone.
  void reporting_failure(const std::function<void()>& work) const;

  /// Calls open() in rank 0 first, then in the first process of each machine, then in the others,
  /// so that they find the cache it fills. Returns the result of open().
  template <class Open>
  auto first_then_others(const std::string& what, const Open& open) const {
    std::optional<decltype(open())> opened;
    const auto once = [&] {
      if (!opened) {
        opened = open();
      }
    };
    without_timeout(what, world().is_first(), once);
    without_timeout(what, world().local_rank() == 0, once);
    without_timeout(what, /*participates=*/true, once);
    return std::move(*opened);
  }

 private:
  /// `look` returns an object with the values that must be the same, by name. It may throw.
  void check_same(const std::string& what, const std::function<Json()>& look) const;
  /// Runs work in some processes that may take longer than the world's timeout; meanwhile the
  /// others are told that it continues.
  void without_timeout(const std::string& what,
                       bool participates,
                       const std::function<void()>& work) const;
  bool shards_models() const;  // fsdp
  void shard_over(Model& model, std::optional<at::ScalarType> dtype) const;

  ShardOptions sharded_;
  c10::Device device_ = c10::kCPU;
  std::unique_ptr<World> joined_;  // null: not launched as part of a world
};

}  // namespace reprise::app
