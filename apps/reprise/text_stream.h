// Generated text for immediate printing: whole characters only, and no part of a stop string.
#pragma once

#include <reprise/text/tokenizer.h>

#include <memory>
#include <string>
#include <vector>

namespace reprise::app {

class TextStream {
 public:
  TextStream(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stop)
      : decoder_(std::move(tokenizer)), stop_(std::move(stop)) {}

  /// The text that can be shown after this token. A possible beginning of a stop string is held
  /// back until it turns out not to be one.
  std::string push(int64_t token);
  std::string finish();

 private:
  std::string release(bool is_end);

  StreamDecoder decoder_;
  std::vector<std::string> stop_;
  std::string held_;
  bool is_stopped_ = false;
};

}  // namespace reprise::app
