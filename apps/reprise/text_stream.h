// Text printed as it is generated: whole characters only, and nothing of a stop string.
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

  /// The text that is certain to be shown with this token. What may be the beginning of a stop
  /// string waits until it is known not to be.
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
