// HTTP POST of JSON, with libcurl.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace reprise::reward {

struct HttpResponse {
  long status = 0;   ///< 0: no response; `failure` has the reason
  std::string body;  ///< up to max_response_bytes
  std::string failure;
  bool is_too_long = false;
};

/// Posts to one server over a persistent connection. Not thread-safe.
class HttpClient {
 public:
  /// Throws unless `url` is an http or https URL. `authorization`: the value of that header; empty:
  /// none.
  HttpClient(const std::string& url, const std::string& authorization);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// For messages: without user, password and query.
  const std::string& url() const { return shown_url_; }

  HttpResponse post(const std::string& json,
                    std::chrono::milliseconds timeout,
                    size_t max_response_bytes);

 private:
  struct Handles;
  std::unique_ptr<Handles> handles_;
  std::string shown_url_;
};

}  // namespace reprise::reward
