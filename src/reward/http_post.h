// One HTTP POST of JSON, by libcurl.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace reprise::detail {

struct HttpResponse {
  long status = 0;   ///< 0: there was no answer, and `failure` says why
  std::string body;  ///< as much as was allowed
  std::string failure;
  bool is_too_long = false;
};

/// A server that is posted to again and again over one connection. For one thread at a time.
class HttpClient {
 public:
  /// Throws unless `url` is an http or https URL.
  explicit HttpClient(const std::string& url);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  const std::string& url() const {
    return shown_url_;
  }  ///< for messages: without user and password

  HttpResponse post(const std::string& json,
                    std::chrono::milliseconds timeout,
                    size_t max_response_bytes);

 private:
  struct Handles;
  std::unique_ptr<Handles> handles_;
  std::string shown_url_;
};

}  // namespace reprise::detail
