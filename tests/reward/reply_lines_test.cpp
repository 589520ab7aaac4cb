// What a reward command prints on a line, however it is meant: read in one pass, on a small stack,
// with memory in proportion to the line.
#include "reward/reply_lines.h"

#include "support/sanitizer.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <vector>

namespace {

std::atomic<size_t> bytes_allocated = 0;

}  // namespace

// Counts what is allocated, by whatever library, so that a test can say what a line costs. Not
// under sanitizers, which have their own.
#if !REPRISE_UNDER_ASAN && !REPRISE_UNDER_TSAN
void* operator new(size_t size) {
  bytes_allocated += size;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) {
    return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
#endif

namespace reprise::reward {
namespace {

using testing::error_of;
using testing::expect_error;

std::string repeated(const std::string& text, size_t bytes) {
  std::string result;
  while (result.size() + text.size() <= bytes) {
    result += text;
  }
  return result;
}

/// Lines that a hostile process may print, of at most so many bytes.
std::vector<std::string> hostile_lines(size_t bytes) {
  return {repeated(":NaN,", bytes),
          "{\"reward\":NaN" + repeated(":NaN,", bytes - 20),
          repeated(": -+- ", bytes),
          repeated("-", bytes),
          repeated("\":NaN\\", bytes),
          repeated("[", bytes),
          repeated("{\"a\":", bytes),
          "[" + repeated("NaN,", bytes - 2),
          "{\"reward\": " + repeated("1", bytes - 12) + "}",
          repeated("\xff", bytes)};
}

/// Runs `body` on a thread whose stack has so many bytes.
void on_small_stack(size_t bytes, const std::function<void()>& body) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(
      pthread_create(&thread, &attributes, run, const_cast<void*>(static_cast<const void*>(&body))),
      0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(ReplyLine, HostileLinesAreRefusedOnASmallStack) {
  on_small_stack(size_t{256} << 10, [] {
    for (const std::string& line : hostile_lines(kLongestReplyLine)) {
      EXPECT_NE(error_of([&] { parse_reply_line(line); }), "") << line.substr(0, 30);
    }
  });
}

TEST(ReplyLine, CostsMemoryInProportionToItsLength) {
  const auto cost = [](const std::string& line) {
    const size_t before = bytes_allocated;
    error_of([&] { parse_reply_line(line); });
    return bytes_allocated - before;
  };
  const std::vector<std::string> half = hostile_lines(kLongestReplyLine / 2);
  const std::vector<std::string> whole = hostile_lines(kLongestReplyLine);
  // A message with its backtrace, which does not grow with the line.
  const size_t message = size_t{1} << 20;
  for (size_t i = 0; i < whole.size(); ++i) {
    const size_t most = 2 * cost(half[i]) + 64 * kLongestReplyLine;
    EXPECT_LT(cost(whole[i]), most + message) << whole[i].substr(0, 30);
  }
}

TEST(ReplyLine, NullsEveryNonFiniteValueOutsideStrings) {
  const ReplyLine reply = parse_reply_line(
      R"({"a": NaN, "b":-Infinity , "why": "c:\" nan, :inf}", "reward": + inf, "id": 3})");
  EXPECT_FALSE(reply.is_finite);
  EXPECT_EQ(reply.id, 3);
  EXPECT_TRUE(std::isnan(reply.reward));
  for (const std::string line : {"NaN", " -nan", "inf", "- Infinity ", "{\"reward\":nan}"}) {
    EXPECT_FALSE(parse_reply_line(line).is_finite) << line;
  }
  EXPECT_TRUE(parse_reply_line(R"({"reward": 1, "why": ": NaN, \\"})").is_finite);
  EXPECT_TRUE(parse_reply_line("null").is_finite);
}

TEST(ReplyLine, RefusesWhatOnlyLooksLikeANumber) {
  for (const std::string line : {"nano",
                                 "NaN NaN",
                                 "{\"reward\": nanny}",
                                 "[NaN]",
                                 ":NaN",
                                 "\"NaN",
                                 "{\"reward\": \"NaN\"}",
                                 "{\"x\": NaN}"}) {
    expect_error([&] { parse_reply_line(line); }, "expected a number, null or");
  }
}

}  // namespace
}  // namespace reprise::reward
