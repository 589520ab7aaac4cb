#include <reprise/train/effect.h>

#include <reprise/stats.h>

#include <c10/util/Exception.h>

#include <algorithm>

namespace reprise {

namespace {

// "0-7,12", as --gradient_checkpointing_layers takes them.
std::string names(const std::vector<int64_t>& blocks) {
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

EffectCheck::EffectCheck(const Model& model)
    : model_(model), asked_(model.checkpointed_blocks()), expected_(model.recomputed_blocks()) {
  TORCH_CHECK(asked_.empty() || !expected_.empty(),
              "[checkpointing] blocks ",
              names(asked_),
              " are to be checkpointed, but all that is trained lies above them: no gradient "
              "reaches them, so nothing is kept for them and nothing can be saved. Choose other "
              "blocks, or leave checkpointing off.");
  record_checkpoint_stats(true);
}

void EffectCheck::begin_step() {
  reset_checkpoint_stats();
}

void EffectCheck::check_choice() const {
  TORCH_CHECK(model_.checkpointed_blocks() == asked_,
              "[checkpointing] blocks ",
              names(asked_),
              " were asked for, but the model now has ",
              names(model_.checkpointed_blocks()),
              ": something changed the choice during training.");
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
                " was to be a region ",
                wanted.entered,
                " times and recomputed ",
                wanted.recomputed,
                " times in ",
                micro_batches,
                " micro-batches, but it was a region ",
                found.entered,
                " times and recomputed ",
                found.recomputed,
                " times.");
    all += wanted.entered;
  }
  TORCH_CHECK(stats.total.entered == all,
              "[checkpointing] a step was to enter ",
              all,
              " regions, those of blocks ",
              names(expected_),
              ", but ",
              stats.total.entered,
              " were entered: a pass that needs no checkpointing had it on.");
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
  effect.bytes_dropped =
      static_cast<int64_t>(stats.total.bytes_dropped) / std::max<int64_t>(micro_batches, 1);
  effect.recompute_ms =
      std::chrono::duration<double, std::milli>(stats.total.recompute_time).count();
  return effect;
}

// A region that was recomputed had dropped tensors, or it is a reentrant one: those record nothing,
// so their bytes are not known.
void EffectCheck::check_bytes(const RegionStats& total) const {
  if (total.bytes_dropped > 0 || (total.tensors_dropped == 0 && total.bytes_kept == 0)) {
    return;
  }
  TORCH_CHECK(false,
              "[checkpointing] blocks ",
              names(expected_),
              " were checkpointed, but no byte was freed: ",
              total.bytes_kept > 0
                  ? "the policy keeps everything."
                  : "all that they dropped is their inputs and parameters, or held elsewhere.");
}

std::string EffectCheck::describe() const {
  if (asked_.empty()) {
    return "off";
  }
  const auto below = asked_.size() - expected_.size();
  std::string text = c10::str(
      expected_.size(), " of ", model_.config().layers, " blocks (", names(expected_), ")");
  if (below > 0) {
    text += c10::str("; ", below, " more lie below all that is trained and need none");
  }
  return text;
}

}  // namespace reprise
