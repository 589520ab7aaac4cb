// What errors say.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace reprise::testing {

/// The text of the Error that `fn` throws; fails if it throws none.
template <class Error, class Fn>
std::string message_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

inline ::testing::AssertionResult contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos
             ? ::testing::AssertionSuccess()
             : ::testing::AssertionFailure() << "\"" << part << "\" is not in: " << text;
}

}  // namespace reprise::testing
