// HttpClient with libcurl's easy interface. One handle, so that its connection is kept alive.
#include "reward/http_post.h"

#include <reprise/reward/url.h>

#include <c10/util/Exception.h>
#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace reprise::reward {
namespace {

struct Free {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
  void operator()(char* text) const { curl_free(text); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

/// Initialised once before the first use and never cleaned up, since the program may use it too.
void set_up_curl() {
  static const CURLcode result = curl_global_init(CURL_GLOBAL_DEFAULT);
  TORCH_CHECK(result == CURLE_OK, "[reward] libcurl: ", curl_easy_strerror(result));
}

std::string part_of(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  curl_url_get(url, part, &text, 0);
  const Owned<char> owned(text);
  return text == nullptr ? "" : text;
}

/// The URL as messages show it. Throws unless it is http or https; the message does not quote the
/// URL, since passwords cannot be removed from a URL that cannot be parsed.
std::string checked_url(const std::string& text, bool has_authorization) {
  const Owned<CURLU> url(curl_url());
  TORCH_CHECK(url != nullptr &&
                  curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_NON_SUPPORT_SCHEME) ==
                      CURLUE_OK &&
                  text.find('\0') == std::string::npos,
              "[reward] expected a URL such as http://localhost:5000/score, found one that cannot "
              "be parsed");
  const std::string scheme = part_of(url.get(), CURLUPART_SCHEME);
  TORCH_CHECK(scheme == "http" || scheme == "https",
              "[reward] expected an http or https URL, found ",
              scheme,
              "://");
  TORCH_CHECK(!has_authorization || (part_of(url.get(), CURLUPART_USER).empty() &&
                                     part_of(url.get(), CURLUPART_PASSWORD).empty()),
              "[reward] the URL has a user or password, and there is a token too; expected one of "
              "them");
  return redacted_url(part_of(url.get(), CURLUPART_URL));
}

struct Receiver {
  HttpResponse response;
  size_t max_bytes = 0;
};

/// curl's write callback. Returning fewer bytes than given ends the transfer.
size_t receive(char* data, size_t size, size_t count, void* receiver) {
  auto& [response, max_bytes] = *static_cast<Receiver*>(receiver);
  const size_t bytes = size * count;
  if (response.body.size() + bytes > max_bytes) {
    response.is_too_long = true;
    return 0;
  }
  response.body.append(data, bytes);
  return bytes;
}

void allow_http_only(CURL* handle) {
#if LIBCURL_VERSION_NUM >= 0x075500
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
  curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
}

}  // namespace

struct HttpClient::Handles {
  Owned<CURL> easy;
  Owned<curl_slist> headers;
};

HttpClient::HttpClient(const std::string& url, const std::string& authorization)
    : handles_(std::make_unique<Handles>()) {
  set_up_curl();
  shown_url_ = checked_url(url, !authorization.empty());
  // Control characters would begin another header.
  TORCH_CHECK(std::none_of(authorization.begin(),
                           authorization.end(),
                           [](unsigned char c) { return c < 0x20 || c == 0x7f; }),
              "[reward] the token for the server has control characters");
  handles_->easy.reset(curl_easy_init());
  TORCH_CHECK(handles_->easy != nullptr, "[reward] libcurl returned no handle");
  // No "Expect: 100-continue": many small servers do not support it, and each call would wait.
  std::vector<std::string> headers{"Content-Type: application/json", "Expect:"};
  if (!authorization.empty()) {
    headers.push_back("Authorization: " + authorization);
  }
  for (const auto& header : headers) {
    curl_slist* longer = curl_slist_append(handles_->headers.get(), header.c_str());
    TORCH_CHECK(longer != nullptr, "[reward] no memory for HTTP headers");
    static_cast<void>(handles_->headers.release());  // append() returned the same list
    handles_->headers.reset(longer);
  }
  CURL* const easy = handles_->easy.get();
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, handles_->headers.get());
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "reprise");
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);  // signals are unsafe with threads
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(easy, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(easy, CURLOPT_POSTREDIR, static_cast<long>(CURL_REDIR_POST_ALL));
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, receive);
  allow_http_only(easy);
}

HttpClient::~HttpClient() = default;

HttpResponse HttpClient::post(const std::string& json,
                              std::chrono::milliseconds timeout,
                              size_t max_response_bytes) {
  CURL* const easy = handles_->easy.get();
  Receiver receiver{{}, max_response_bytes};
  std::array<char, CURL_ERROR_SIZE> error{};
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, json.c_str());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(json.size()));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &receiver);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error.data());
  const CURLcode result = curl_easy_perform(easy);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, nullptr);
  HttpResponse& response = receiver.response;
  if (result == CURLE_OK) {
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &response.status);
  } else if (!response.is_too_long) {
    response.failure = error[0] != '\0' ? error.data() : curl_easy_strerror(result);
  }
  return std::move(response);
}

}  // namespace reprise::reward
