// The processes of a run: which of them this is, where it computes, and what all of them must have
// in common. A process that nobody started as one of a world is a world of its own.
#pragma once

#include "reprise/training/flags.h"

#include <reprise/dist/world.h>
#include <reprise/io/json.h>
#include <reprise/model/checkpoint.h>
#include <reprise/parallel/spread.h>

#include <c10/core/Device.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace reprise::app {

/// Outlives every model that it has spread.
class RunWorld {
 public:
  /// Joins the world that the environment names. Throws, in all processes, if their flags differ;
  /// and for flags without effect in a world of this size.
  RunWorld(const TrainingFlags& flags, const Json& configuration);

  const World& world() const { return joined_ ? *joined_ : World::single(); }
  bool is_first() const { return world().is_first(); }
  /// Whether it was started as one of a world, which may be its only one.
  bool is_joined() const { return joined_ != nullptr; }
  c10::Device device() const { return device_; }
  /// "4 processes, fsdp"
  std::string describe() const;

  /// Throws, in all processes, if they have different files there, by size and by samples of what
  /// is in them, so that machines may have copies: configuration and weights of a model.
  void check_same_model(const std::filesystem::path& folder) const;
  /// The same for the files of rows, and for the tokenizer and the template that read them.
  void check_same_data(const TrainingFlags& flags) const;

  /// How a model is opened that is to be of this type on this process's device. Under fsdp its
  /// weights stay in their files until it is spread, if they `may_be_mapped`.
  LoadOptions load_options(std::optional<at::ScalarType> dtype, bool may_be_mapped) const;
  /// `dtype`: that of load_options(). With adapters, if it has them. Alone it stays as it is.
  void spread_trained(Model& model, std::optional<at::ScalarType> dtype) const;
  /// A reference, a teacher, a reward model: whole in every process, but for fsdp.
  void spread_frozen(Model& model, std::optional<at::ScalarType> dtype) const;

  /// Does the work; if it throws, the other processes learn why before they learn that this one is
  /// gone.
  void reporting_failure(const std::function<void()>& work) const;

  /// What open() returns, in the first process before the others, and in the first of each machine
  /// before the others there: what it leaves in a cache is there for them.
  template <class Open>
  auto first_then_others(const std::string& what, const Open& open) const {
    std::optional<decltype(open())> opened;
    const auto once = [&] {
      if (!opened) {
        opened = open();
      }
    };
    at_leisure(what, world().is_first(), once);
    at_leisure(what, world().local_rank() == 0, once);
    at_leisure(what, /*takes_part=*/true, once);
    return std::move(*opened);
  }

 private:
  /// `look` returns an object of what must be the same, by name. It may throw.
  void check_same(const std::string& what, const std::function<Json()>& look) const;
  /// Work of some processes that may take longer than the world's timeout: the others hear now and
  /// then that it goes on.
  void at_leisure(const std::string& what,
                  bool takes_part,
                  const std::function<void()>& work) const;
  bool cuts_models() const;  // fsdp
  void spread_over(Model& model, std::optional<at::ScalarType> dtype) const;

  SpreadOptions spread_;
  c10::Device device_ = c10::kCPU;
  std::unique_ptr<World> joined_;  // null: nobody started this process as one of a world
};

}  // namespace reprise::app
