// A request as the JSON object that commands and servers get.
#pragma once

#include <reprise/reward/reward.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::detail {

/// {"id", "prompt", "completion", "is_finished"} and the row's columns; those of the same names are
/// under "row".
Json request_json(const RewardRequest& request, int64_t id);

/// On one line. Bytes that are not UTF-8, which a completion may hold, become U+FFFD.
std::string one_line(const Json& json);

/// For messages: the first bytes of what someone else printed, in quotes.
std::string quoted_start(std::string_view text);

}  // namespace reprise::detail
