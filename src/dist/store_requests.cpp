#include "dist/store_requests.h"

#include "dist/store_message.h"

#include <reprise/dist/error_text.h>

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>
#include <vector>

namespace reprise::dist {

namespace {

using Kind = StoreMessageKind;

std::vector<uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string text_of_value(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

StoreMessage answer(c10d::Store& values, const StoreMessage& request) {
  const auto& texts = request.texts;
  const auto text = [&](size_t i) -> const std::string& {
    TORCH_CHECK(i < texts.size(), "[world] a request to the store is not complete");
    return texts[i];
  };
  switch (request.kind) {
    case Kind::Set:
    case Kind::MultiSet:
      for (size_t i = 0; i < texts.size(); i += 2) {
        values.set(text(i), bytes_of(text(i + 1)));
      }
      return {Kind::Done};
    case Kind::Append:
      values.append(text(0), bytes_of(text(1)));
      return {Kind::Done};
    case Kind::CompareSet:
      return {Kind::Done,
              {text_of_value(values.compareSet(text(0), bytes_of(text(1)), bytes_of(text(2))))}};
    case Kind::MultiGet: {
      if (!values.check(texts)) {
        return {Kind::Missing};
      }
      StoreMessage message{Kind::Done};
      size_t bytes = 0;
      for (const auto& key : texts) {
        message.texts.push_back(text_of_value(values.get(key)));
        bytes += message.texts.back().size();
        if (bytes > kMaxMessageBytes) {
          break;  // encoded() refuses it; a key may be asked for a million times
        }
      }
      return message;
    }
    case Kind::Check:
      return {values.check(texts) ? Kind::Done : Kind::Missing};
    case Kind::Add:
      return {Kind::Done, {std::to_string(values.add(text(0), std::stoll(text(1))))}};
    case Kind::Delete:
      return {values.deleteKey(text(0)) ? Kind::Done : Kind::Missing};
    case Kind::Count:
      return {Kind::Done, {std::to_string(values.getNumKeys())}};
    case Kind::Done:
    case Kind::Missing:
    case Kind::Failed:
      break;
  }
  return {Kind::Failed, {"not a request"}};
}

/// Set and MultiSet have no answer.
bool has_answer(const StoreMessage& request) {
  return request.kind != Kind::Set && request.kind != Kind::MultiSet;
}

}  // namespace

bool take_requests(c10d::Store& values, std::string& in, std::string& out) {
  std::string_view left = in;
  while (left.size() >= kLengthBytes) {
    const size_t length = decoded_length(left);
    if (length > kMaxMessageBytes) {
      return false;
    }
    if (left.size() - kLengthBytes < length) {
      break;
    }
    const auto request = decoded(left.substr(kLengthBytes, length));
    left.remove_prefix(kLengthBytes + length);
    if (!request) {
      return false;
    }
    std::string message;
    try {
      message = encoded(answer(values, *request));
    } catch (const std::exception& error) {  // also of an answer that is too long
      message = encoded({Kind::Failed, {error_text(error)}});
    }
    if (has_answer(*request)) {
      out += message;
    }
  }
  in.erase(0, in.size() - left.size());
  return true;
}

}  // namespace reprise::dist
