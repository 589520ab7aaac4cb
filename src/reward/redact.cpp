// Secrets in URLs: a user and password before the host, and tokens in the query.
#include <reprise/reward/url.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace reprise {
namespace {

/// What ends the authority of a URL that stands alone, and of one in a text.
constexpr std::string_view kAuthorityEnds = "/?#";
constexpr std::string_view kAuthorityEndsInText = "/?# \t\n\"'<>";

/// Where the user and password of a URL's authority end, just before the @; npos if it has none.
size_t end_of_user(std::string_view text, size_t authority, std::string_view ends) {
  const size_t end = std::min(text.find_first_of(ends, authority), text.size());
  const size_t at = text.substr(0, end).rfind('@');
  return at == std::string_view::npos || at < authority ? std::string_view::npos : at;
}

/// Where the authority of a URL begins. One without a scheme is http, as curl takes it; a "://"
/// after anything else, such as in the query, is no scheme.
size_t authority_of(std::string_view url) {
  const size_t end = url.find("://");
  const auto is_scheme = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
  };
  return end != std::string_view::npos && std::all_of(url.begin(), url.begin() + end, is_scheme)
             ? end + 3
             : 0;
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
    const size_t at = end_of_user(text, authority, kAuthorityEndsInText);
    result += at == std::string::npos ? "" : kRedacted;
    begin = at == std::string::npos ? authority : at;
  }
}

std::string redacted_url(const std::string& url) {
  std::string result = without_passwords(url);
  const size_t authority = authority_of(result);
  if (const size_t at = end_of_user(result, authority, kAuthorityEnds); at != std::string::npos) {
    result = result.substr(0, authority) + kRedacted + result.substr(at);
  }
  result = result.substr(0, result.find('#'));  // is never sent
  const size_t query = result.find('?');
  return query == std::string::npos
             ? result
             : result.substr(0, query + 1) +
                   redacted_query(std::string_view(result).substr(query + 1));
}

}  // namespace reprise
