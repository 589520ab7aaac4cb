// Secrets in URLs: a user and password before the host, and tokens in the query.
#include <reprise/reward/url.h>

#include <algorithm>
#include <string_view>

namespace reprise {
namespace {

/// Where the user and password of a URL's authority end, just before the @; npos if it has none.
size_t end_of_user(std::string_view text, size_t authority) {
  const size_t end = std::min(text.find_first_of("/?# \t\n\"'<>", authority), text.size());
  const size_t at = text.substr(0, end).rfind('@');
  return at == std::string_view::npos || at < authority ? std::string_view::npos : at;
}

/// "a=1&b=2" as "a=***&b=***". A value without a name may be a token as well.
std::string redacted_query(std::string_view query) {
  std::string result;
  while (true) {
    const size_t end = std::min(query.find_first_of("&;"), query.size());
    const auto one = query.substr(0, end);
    const size_t equals = one.find('=');
    if (equals != std::string_view::npos) {
      result += one.substr(0, equals + 1);
    }
    result += one.empty() ? "" : kRedacted;
    if (end == query.size()) {
      return result;
    }
    result += query[end];
    query.remove_prefix(end + 1);
  }
}

}  // namespace

std::string without_passwords(const std::string& text) {
  std::string result;
  size_t begin = 0;  // of what has not been copied yet
  while (true) {
    const size_t scheme = text.find("://", begin);
    if (scheme == std::string::npos) {
      return result + text.substr(begin);
    }
    const size_t authority = scheme + 3;
    result += text.substr(begin, authority - begin);
    const size_t at = end_of_user(text, authority);
    result += at == std::string::npos ? "" : kRedacted;
    begin = at == std::string::npos ? authority : at;
  }
}

std::string redacted_url(const std::string& url) {
  std::string result = without_passwords(url);
  if (url.find("://") == std::string::npos) {  // as curl takes it: http
    const size_t at = end_of_user(result, 0);
    result = at == std::string::npos ? result : kRedacted + result.substr(at);
  }
  result = result.substr(0, result.find('#'));  // is never sent
  const size_t query = result.find('?');
  return query == std::string::npos
             ? result
             : result.substr(0, query + 1) +
                   redacted_query(std::string_view(result).substr(query + 1));
}

}  // namespace reprise
