// Rewards from a program of yours, in any language, that runs during the whole training.
//
// It reads JSON lines from standard input, one object per completion: {"id", "prompt",
// "completion", "is_finished"} and all columns of the data row under their names. A column with one
// of those four names is in "row" instead. For each object it prints one line to standard output
// and flushes it: a number, null if it cannot score the completion, or {"id": ..., "reward": number
// or null}. Lines with ids may come in any order; lines without ids must be in the order of the
// objects.
#pragma once

#include <reprise/export.h>
#include <reprise/reward/reward.h>

#include <chrono>
#include <memory>
#include <string>

namespace reprise {

struct CommandRewardOptions {
  std::string command = {};      ///< run with sh -c
  std::string name = "command";  ///< in metrics
  /// For all lines of one call of score(), including the start of the process.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
};

/// The process starts with the first call of score(). The destructor terminates it, together with
/// its children. If it dies, takes too long or prints something else, it is restarted once and
/// asked again; if that fails too, score() throws with the command, both failures and the end of
/// its standard error. A reward of NaN or infinity is an error at once, with the row.
REPRISE_API std::unique_ptr<RewardSource> make_command_reward(CommandRewardOptions options);

}  // namespace reprise
