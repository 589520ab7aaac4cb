// The request, when it is retried, and how the response is checked.
#include <reprise/reward/url.h>

#include "reward/answer_column.h"
#include "reward/http_post.h"
#include "reward/request_json.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

namespace reprise {
namespace {

using reward::HttpResponse;

Json requests_body(std::span<const RewardRequest> requests) {
  Json list = Json::array();
  for (const RewardRequest& request : requests) {
    list.push_back(reward::request_json(request, static_cast<int64_t>(list.size())));
  }
  return {{"requests", std::move(list)}};
}

Json openrlhf_body(std::span<const RewardRequest> requests) {
  Json query = Json::array();
  Json prompts = Json::array();
  Json labels = Json::array();
  for (const RewardRequest& request : requests) {
    query.push_back(request.prompt + request.completion);
    prompts.push_back(request.prompt);
    const Json* answer = request.row ? reward::find_answer(*request.row, "") : nullptr;
    labels.push_back(answer ? *answer : Json());
  }
  return {
      {"query", std::move(query)}, {"prompts", std::move(prompts)}, {"labels", std::move(labels)}};
}

/// Whether to retry: no connection, a time-out, too many requests, or a server error.
bool may_pass(const HttpResponse& response) {
  return !response.failure.empty() || response.status == 429 || response.status >= 500;
}

class UrlReward final : public RewardSource {
 public:
  explicit UrlReward(UrlRewardOptions options)
      : options_(std::move(options)), server_(options_.url, options_.authorization) {
    TORCH_CHECK(options_.timeout.count() > 0 && options_.retries >= 0 &&
                    options_.first_wait.count() >= 0 && options_.max_response_bytes > 0,
                "[reward] expected a time-out and max_response_bytes above 0, and retries and "
                "first_wait of at least 0");
  }

  std::string name() const override { return options_.name; }

  std::vector<double> score(std::span<const RewardRequest> requests) override {
    if (requests.empty()) {
      return {};
    }
    const Json body = options_.format == UrlRewardFormat::OpenRlhf ? openrlhf_body(requests)
                                                                   : requests_body(requests);
    return rewards_in(post(reward::one_line(body)), requests.size());
  }

 private:
  std::string described() const { return "[reward] " + options_.name + ": " + server_.url(); }

  /// The beginning of a response. A server may answer with the header that it refuses.
  std::string shown(std::string body) const {
    const auto& whole = options_.authorization;
    const auto token = whole.substr(whole.find(' ') + 1);
    for (size_t at = 0; !token.empty() && (at = body.find(token, at)) != std::string::npos;) {
      body.replace(at, token.size(), kRedacted);
    }
    return reward::quoted_start(body);
  }

  /// The body of a successful response.
  std::string post(const std::string& body) {
    auto wait = options_.first_wait;
    for (int64_t attempt = 0;; ++attempt, wait *= 2) {
      HttpResponse response = server_.post(body, options_.timeout, options_.max_response_bytes);
      TORCH_CHECK(!response.is_too_long,
                  described(),
                  " answered with more than ",
                  options_.max_response_bytes,
                  " bytes, which begin with ",
                  shown(response.body));
      if (response.status >= 200 && response.status < 300) {
        return std::move(response.body);
      }
      if (attempt == options_.retries || !may_pass(response)) {
        refuse(response, attempt + 1);
      }
      std::this_thread::sleep_for(wait);
    }
  }

  [[noreturn]] void refuse(const HttpResponse& response, int64_t attempts) const {
    const std::string times =
        attempts == 1 ? "" : " after " + std::to_string(attempts) + " attempts";
    TORCH_CHECK(response.failure.empty(), described(), times, ": ", response.failure);
    TORCH_CHECK(false,
                described(),
                times,
                ": expected a status of success, found ",
                response.status,
                " and ",
                shown(response.body));
  }

  std::vector<double> rewards_in(const std::string& body, size_t requests) const {
    Json json;
    try {
      json = parse_json(body, "response");
    } catch (const c10::Error& error) {
      TORCH_CHECK(false,
                  described(),
                  ": the response is not JSON (",
                  error.what_without_backtrace(),
                  "): ",
                  shown(body));
    }
    TORCH_CHECK(json.is_object() && json.contains("rewards") && json["rewards"].is_array(),
                described(),
                ": expected {\"rewards\": [...]}, found ",
                shown(body));
    const Json& list = json["rewards"];
    TORCH_CHECK(list.size() == requests,
                described(),
                ": expected ",
                requests,
                " rewards, found ",
                list.size(),
                ": ",
                shown(body));
    std::vector<double> rewards;
    rewards.reserve(requests);
    for (const Json& reward : list) {
      TORCH_CHECK(reward.is_number() || reward.is_null(),
                  described(),
                  ": reward ",
                  rewards.size(),
                  " must be a number or null, found ",
                  kind_of(reward));
      rewards.push_back(reward.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                         : reward.get<double>());
    }
    return rewards;
  }

  UrlRewardOptions options_;
  reward::HttpClient server_;
};

}  // namespace

std::unique_ptr<RewardSource> make_url_reward(UrlRewardOptions options) {
  return std::make_unique<UrlReward>(std::move(options));
}

}  // namespace reprise
