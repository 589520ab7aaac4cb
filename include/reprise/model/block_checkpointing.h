// Which blocks of a model are checkpointed, and how.
#pragma once

#include <reprise/export.h>
#include <reprise/options.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

/// A choice of blocks, made before the number of blocks is known.
class REPRISE_API BlockChoice {
 public:
  static BlockChoice all();
  static BlockChoice every(int64_t n);        ///< blocks 0, n, 2n, ...
  static BlockChoice ratio(double fraction);  ///< the first int(fraction * blocks)
  static BlockChoice first(int64_t k);
  static BlockChoice list(std::vector<int64_t> blocks);
  /// "all", "every:2", "ratio:0.5", "first:4", "list:0-7,12": as the command line spells it.
  static BlockChoice parse(const std::string& text);

  /// The chosen of `blocks` blocks, ascending. Throws if they are none, or one is not there.
  std::vector<int64_t> choose(int64_t blocks) const;
  std::string describe() const;

 private:
  enum class Kind : uint8_t { All, Every, Ratio, First, List };
  BlockChoice(Kind kind, int64_t count, double fraction, std::vector<int64_t> blocks);

  Kind kind_;
  int64_t count_;
  double fraction_;
  std::vector<int64_t> blocks_;
};

/// Names of the memory policies that a command line can choose: full, attention (results of
/// attention kept), matmuls (every second matrix product kept). Throws for another name.
REPRISE_API CheckpointOptions checkpoint_options_named(const std::string& policy);

}  // namespace reprise
