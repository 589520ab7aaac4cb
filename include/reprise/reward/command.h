// Rewards from a process of the user's, in any language, that lives as long as the training.
//
// It reads JSON lines, one object per completion: {"id", "prompt", "completion", "is_finished"} and
// all columns of the row under their names; a column with one of those four names is found in "row"
// instead. It prints one line per object, and must not hold it back (flush): a number, null if it
// cannot score it, or {"id": ..., "reward": number or null}. Lines with ids may come in any order,
// lines without are in the order of the objects.
#pragma once

#include <reprise/export.h>
#include <reprise/reward/reward.h>

#include <chrono>
#include <memory>
#include <string>

namespace reprise {

struct CommandRewardOptions {
  std::string command = {};  ///< run by sh -c
  std::string name = "command";
  /// For all answers to one call of score().
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
};

/// The process starts with the first call of score() and is ended, with all it started, by the
/// destructor. One that dies, answers too late or prints what is no answer is started once more and
/// asked again; if that fails too, score() throws with the command, what happened both times and
/// the end of what it wrote to standard error. A reward that is NaN or infinite is the command's
/// mistake and thrown at once, with the row.
REPRISE_API std::unique_ptr<RewardSource> make_command_reward(CommandRewardOptions options);

}  // namespace reprise
