// The interface of reward sources: verifiers, a command, a server, a reward model. All of them
// score text. Derive from RewardSource for a source of your own.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace reprise {

class Model;

/// A completion to be scored. `row` must stay alive while the request is used.
struct RewardRequest {
  std::string prompt;               ///< as the policy saw it: a chat is rendered by its template
  std::string completion;           ///< without special tokens
  const Json* row = nullptr;        ///< the data row with all its columns; null: none
  bool is_finished = true;          ///< ended by a stop token, not by the length limit
  int64_t tokens = 0;               ///< length of the completion in the policy's tokens
  std::vector<Json> messages = {};  ///< the chat before the completion; empty: plain text
};

class REPRISE_API RewardSource {
 public:
  RewardSource() = default;
  virtual ~RewardSource();
  RewardSource(const RewardSource&) = delete;
  RewardSource& operator=(const RewardSource&) = delete;

  /// The name in metrics: "rewards/<name>/mean".
  virtual std::string name() const = 0;

  /// Throws if no completion of this row could ever be scored, for example because a column is
  /// missing. Called before training to check the data; the caller adds the file and line. Does
  /// nothing by default.
  virtual void check(const Json& row) const;

  /// The model that score() runs, if any; null by default. If it is sharded over processes, the
  /// training loop unshards it around score(), since processes may score different numbers of
  /// completions.
  virtual const Model* model() const;

  /// One finite number per request, or NaN if this source cannot score it. Throws, naming the
  /// source, if scoring fails. Called from one thread, in every process with its share of the
  /// completions.
  virtual std::vector<double> score(std::span<const RewardRequest> requests) = 0;
};

}  // namespace reprise
