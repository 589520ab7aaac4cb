// Requests as tests make them, with the rows that they refer to.
#pragma once

#include <reprise/reward/reward.h>

#include <deque>
#include <string>
#include <vector>

namespace reprise::testing {

/// A list of requests that owns its rows.
class RewardRequests {
 public:
  RewardRequests& add(const std::string& prompt, const std::string& completion, Json row = {}) {
    rows_.push_back(row.is_null() ? Json::object() : std::move(row));
    RewardRequest request;
    request.prompt = prompt;
    request.completion = completion;
    request.row = &rows_.back();
    requests.push_back(std::move(request));
    return *this;
  }

  std::vector<RewardRequest> requests;

 private:
  std::deque<Json> rows_;  // which does not move what is in it
};

/// The reward of one completion.
inline double score_one(RewardSource& source, const std::string& completion, const Json& row = {}) {
  RewardRequests one;
  one.add("", completion, row);
  return source.score(one.requests).at(0);
}

}  // namespace reprise::testing
