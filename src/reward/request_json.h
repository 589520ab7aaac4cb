// A request as the JSON object that commands and servers receive.
#pragma once

#include <reprise/reward/reward.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::reward {

/// {"id", "prompt", "completion", "is_finished"} and the columns of the row. Columns with one of
/// these names are under "row" instead.
Json request_json(const RewardRequest& request, int64_t id);

/// JSON on one line. Invalid UTF-8, which a completion may contain, becomes U+FFFD.
std::string one_line(const Json& json);

/// The beginning of a text in quotes, for messages.
std::string quoted_start(std::string_view text);

}  // namespace reprise::reward
