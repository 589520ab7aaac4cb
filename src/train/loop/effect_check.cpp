#include "train/loop/effect_check.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>

namespace reprise {

namespace {

// "0-7,12", the format of the option gradient_checkpointing_layers.
std::string block_list(const std::vector<int64_t>& blocks) {
  std::string text;
  for (size_t first = 0; first < blocks.size();) {
    size_t last = first;
    while (last + 1 < blocks.size() && blocks[last + 1] == blocks[last] + 1) {
      ++last;
    }
    text += (text.empty() ? "" : ",") + std::to_string(blocks[first]);
    if (last > first) {
      text += "-" + std::to_string(blocks[last]);
    }
    first = last + 1;
  }
  return text.empty() ? "none" : text;
}

}  // namespace

int64_t bytes_dropped(const RegionStats& total) {
  return static_cast<int64_t>(total.bytes_dropped + total.bytes_offloaded) -
         static_cast<int64_t>(total.bytes_unsaved);
}

EffectCheck::EffectCheck(const Model& model)
    : model_(model), requested_(model.checkpointed_blocks()), expected_(model.recomputed_blocks()) {
  TORCH_CHECK(requested_.empty() || !expected_.empty(),
              "[checkpointing] blocks ",
              block_list(requested_),
              " are to be checkpointed, but all trained parameters are above them: no gradient "
              "reaches these blocks, so they keep no activations and checkpointing cannot save "
              "memory. Choose other blocks, or turn checkpointing off.");
  record_checkpoint_stats(true);
}

void EffectCheck::begin_step() {
  reset_checkpoint_stats();
}

void EffectCheck::check_choice() const {
  TORCH_CHECK(model_.checkpointed_blocks() == requested_,
              "[checkpointing] requested blocks: ",
              block_list(requested_),
              ", but the model now checkpoints: ",
              block_list(model_.checkpointed_blocks()),
              ". Something changed the setting during training.");
}

CheckpointingEffect EffectCheck::end_step(int64_t micro_batches) {
  std::map<std::string, RegionRuns> wanted;
  const auto times = static_cast<size_t>(micro_batches);
  for (const int64_t block : expected_) {
    wanted[model_.block_path(block)] = {.entered = times, .recomputed = times};
  }
  return compare(micro_batches, wanted, /*frees_bytes=*/true);
}

CheckpointingEffect EffectCheck::end_step(int64_t micro_batches,
                                          const std::map<std::string, RegionRuns>& planned) {
  return compare(micro_batches, planned, /*frees_bytes=*/false);
}

CheckpointingEffect EffectCheck::compare(int64_t micro_batches,
                                         const std::map<std::string, RegionRuns>& planned,
                                         bool frees_bytes) const {
  const auto stats = checkpoint_stats();
  check_choice();
  size_t all = 0;
  for (const auto& [name, wanted] : planned) {
    const auto region = stats.regions.find(name);
    const RegionStats found = region == stats.regions.end() ? RegionStats() : region->second;
    TORCH_CHECK(found.entered == wanted.entered && found.recomputed == wanted.recomputed,
                "[checkpointing] ",
                name,
                ": expected ",
                wanted.entered,
                " checkpointed runs and ",
                wanted.recomputed,
                " recomputes in ",
                micro_batches,
                " micro-batches, got ",
                found.entered,
                " runs and ",
                found.recomputed,
                " recomputes.");
    all += wanted.entered;
  }
  TORCH_CHECK(stats.total.entered == all,
              "[checkpointing] expected ",
              all,
              " checkpointed runs in a step, those of blocks ",
              block_list(expected_),
              ", got ",
              stats.total.entered,
              ": checkpointing was on in a pass that does not need it.");
  if (frees_bytes) {
    check_bytes(stats.total);
  }
  CheckpointingEffect effect;
  for (const int64_t block : expected_) {
    if (planned.contains(model_.block_path(block))) {
      effect.blocks.push_back(block);
    }
  }
  effect.recomputed = static_cast<int64_t>(stats.total.recomputed);
  effect.bytes_dropped = bytes_dropped(stats.total) / std::max<int64_t>(micro_batches, 1);
  effect.knows_bytes_dropped = stats.total.recomputed == 0 || stats.total.tensors_dropped > 0;
  effect.recompute_ms =
      std::chrono::duration<double, std::milli>(stats.total.recompute_time).count();
  return effect;
}

// A recomputed region either dropped tensors or is reentrant. Reentrant regions do not record what
// they drop, so their bytes are unknown.
void EffectCheck::check_bytes(const RegionStats& total) const {
  if (total.bytes_dropped > 0 || (total.tensors_dropped == 0 && total.bytes_kept == 0)) {
    return;
  }
  TORCH_CHECK(false,
              "[checkpointing] blocks ",
              block_list(expected_),
              " were checkpointed, but no memory was freed: ",
              total.bytes_kept > 0
                  ? "the policy keeps everything."
                  : "they only dropped inputs, parameters, and tensors that are held elsewhere.");
}

std::string EffectCheck::describe() const {
  if (requested_.empty()) {
    return "off";
  }
  const auto below = requested_.size() - expected_.size();
  std::string text = c10::str(
      expected_.size(), " of ", model_.config().layers, " blocks (", block_list(expected_), ")");
  if (below > 0) {
    text += c10::str("; ", below, " more are below all trained parameters and need none");
  }
  return text;
}

CheckpointedBlocks describe_checkpointing(const Model& model) {
  const EffectCheck check(model);
  return {check.expected(), check.describe()};
}

}  // namespace reprise
