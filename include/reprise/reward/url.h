// Rewards from a server: one HTTP POST of JSON per call.
#pragma once

#include <reprise/export.h>
#include <reprise/reward/reward.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace reprise {

/// What the server is sent. Either way it answers {"rewards": [...]}: one number per completion, in
/// order, or null where it cannot score one.
enum class UrlRewardFormat : uint8_t {
  Requests,  ///< {"requests": [...]}: the objects that a command gets (reward/command.h)
  OpenRlhf,  ///< {"query": [prompt + completion], "prompts": [...], "labels": [...]}, each a list;
             ///< a label is the row's answer, gt_answer, label or solution, null if it has none
};

struct UrlRewardOptions {
  std::string url = {};  ///< http or https
  std::string name = "url";
  UrlRewardFormat format = UrlRewardFormat::Requests;
  std::chrono::milliseconds timeout = std::chrono::seconds(60);  ///< of one attempt
  /// How often a call is repeated after a failed or lost connection, a time-out, 429 or 5xx.
  int64_t retries = 6;
  std::chrono::milliseconds first_wait{500};  ///< before the first repetition; doubled after each
  size_t max_response_bytes = size_t{16} << 20;
};

/// Throws if the URL is none. score() throws with the URL (never its user or password), the status
/// and the beginning of what the server said.
REPRISE_API std::unique_ptr<RewardSource> make_url_reward(UrlRewardOptions options);

}  // namespace reprise
