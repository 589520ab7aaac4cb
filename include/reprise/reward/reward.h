// Where rewards come from: a verifier, a process, a server, a reward model. All of them see text.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace reprise {

class Model;

/// A completion to be judged. Refers to its row; whoever makes the request keeps that alive.
struct RewardRequest {
  std::string prompt;               ///< as the policy saw it; of a chat, as its template renders it
  std::string completion;           ///< without special tokens
  const Json* row = nullptr;        ///< the data row with all its columns; null: there is none
  bool is_finished = true;          ///< the policy ended it, not the limit of its length
  int64_t tokens = 0;               ///< of the completion, counted by the policy's tokenizer
  std::vector<Json> messages = {};  ///< of a chat: what leads to the completion; empty: plain text
};

class REPRISE_API RewardSource {
 public:
  RewardSource() = default;
  virtual ~RewardSource();
  RewardSource(const RewardSource&) = delete;
  RewardSource& operator=(const RewardSource&) = delete;

  /// As it is logged: "rewards/<name>/mean".
  virtual std::string name() const = 0;

  /// Throws, saying why, if no completion of this row could ever be scored: a column is missing.
  /// For a look at the data before training; the caller knows which file the row is from.
  virtual void check(const Json& row) const;

  /// The model that it passes completions through; null: none. If it is spread over processes and
  /// they ask for different numbers of rewards, its parameters must be held (HeldParameters).
  virtual const Model* model() const;

  /// One number per request, finite, or NaN: this source cannot score it. Throws naming the source
  /// if it is broken.
  virtual std::vector<double> score(std::span<const RewardRequest> requests) = 0;
};

}  // namespace reprise
