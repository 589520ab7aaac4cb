// Rewards from an HTTP server: one POST of JSON per call of score().
#pragma once

#include <reprise/export.h>
#include <reprise/reward/reward.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace reprise {

/// The body of the request. In both formats the response is {"rewards": [...]}: one number per
/// completion, in order, or null if the server cannot score it.
enum class UrlRewardFormat : uint8_t {
  Requests,  ///< {"requests": [...]}: the same objects that a command reads (command.h)
  OpenRlhf,  ///< {"query": [prompt + completion, ...], "prompts": [...], "labels": [...]}; a label
             ///< is the row's answer, gt_answer, label or solution, or null
};

struct UrlRewardOptions {
  std::string url = {};  ///< http or https
  /// The value of the header Authorization, such as "Bearer TOKEN"; empty: none. Sent to the URL's
  /// own host only, and in no message.
  std::string authorization = {};
  std::string name = "url";
  UrlRewardFormat format = UrlRewardFormat::Requests;
  std::chrono::milliseconds timeout = std::chrono::seconds(60);  ///< for one attempt
  /// Retries after a failed or lost connection, a time-out, or a status of 429 or 5xx.
  int64_t retries = 6;
  std::chrono::milliseconds first_wait{500};     ///< before the first retry; doubled after each
  size_t max_response_bytes = size_t{16} << 20;  ///< a longer response is an error
};

/// Throws if the URL is invalid. Errors of score() have the redacted URL, the status and the
/// beginning of the response.
REPRISE_API std::unique_ptr<RewardSource> make_url_reward(UrlRewardOptions options);

/// A URL as it may be written to files and shown: user, password and the values of its query are
/// kRedacted.
REPRISE_API std::string redacted_url(const std::string& url);
/// A text in which users and passwords of all URLs are kRedacted.
REPRISE_API std::string without_passwords(const std::string& text);

inline constexpr const char* kRedacted = "***";

}  // namespace reprise
