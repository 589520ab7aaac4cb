// Our four names come first; a column of the row never replaces one of them.
#include "reward/request_json.h"

#include "text/unicode/utf8.h"

namespace reprise::reward {

Json request_json(const RewardRequest& request, int64_t id) {
  Json object = {{"id", id},
                 {"prompt", request.prompt},
                 {"completion", request.completion},
                 {"is_finished", request.is_finished}};
  if (request.row == nullptr || !request.row->is_object()) {
    return object;
  }
  Json hidden = Json::object();
  for (const auto& [name, value] : request.row->items()) {
    (object.contains(name) ? hidden : object)[name] = value;
  }
  if (!hidden.empty()) {
    object["row"] = std::move(hidden);  // even if the row has a column of that name
  }
  return object;
}

std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string quoted_start(std::string_view text) {
  constexpr size_t kShown = 200;
  std::string shown = "\"" + text::replace_invalid_utf8(text.substr(0, kShown));
  return shown + (text.size() > kShown ? "...\"" : "\"");
}

}  // namespace reprise::reward
