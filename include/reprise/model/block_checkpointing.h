// Which blocks of a model are checkpointed, and with which memory policy.
#pragma once

#include <reprise/export.h>
#include <reprise/options.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

/// A choice of blocks that can be made before the model is known.
///
///   model.enable_checkpointing(BlockChoice::every(2));
class REPRISE_API BlockChoice {
 public:
  static BlockChoice all();
  static BlockChoice every(int64_t n);        ///< blocks 0, n, 2n, …
  static BlockChoice ratio(double fraction);  ///< the first int(fraction * blocks) blocks
  static BlockChoice first(int64_t k);        ///< the first k blocks
  static BlockChoice list(std::vector<int64_t> blocks);
  /// Parses "all", "every:2", "ratio:0.5", "first:4" or "list:0-7,12".
  static BlockChoice parse(const std::string& text);

  /// The chosen ones of `blocks` blocks, ascending. Throws if there are none, or if the choice
  /// names a block that does not exist.
  std::vector<int64_t> choose(int64_t blocks) const;
  std::string describe() const;  ///< in words, for messages

 private:
  enum class Kind : uint8_t { All, Every, Ratio, First, List };
  BlockChoice(Kind kind, int64_t count, double fraction, std::vector<int64_t> blocks);

  Kind kind_;
  int64_t count_;
  double fraction_;
  std::vector<int64_t> blocks_;
};

/// The options of a memory policy by its name: "full" (recompute everything), "attention" (keep the
/// results of attention) or "matmuls" (keep every second matrix product). Throws for other names.
REPRISE_API CheckpointOptions checkpoint_options_named(const std::string& policy);

}  // namespace reprise
