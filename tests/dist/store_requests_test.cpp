// What processes of a world ask of its store: answered one by one, whatever the pieces in which it
// comes; what is no request ends the connection, and what cannot be answered is an answer too.
#include "dist/store_requests.h"

#include "dist/store_message.h"

#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::dist {
namespace {

using Kind = StoreMessageKind;
using Texts = std::vector<std::string>;

std::string number(size_t value) {
  std::string bytes;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    bytes += static_cast<char>(value >> (8 * i));
  }
  return bytes;
}

std::string bytes_of(Kind kind, const Texts& texts = {}) {
  std::string body(1, static_cast<char>(kind));
  for (const std::string& text : texts) {
    body += number(text.size()) + text;
  }
  return number(body.size()) + body;
}

/// One connection to a store that has no keys yet.
struct Connection {
  c10::intrusive_ptr<c10d::HashStore> values = c10::make_intrusive<c10d::HashStore>();
  std::string in, out;

  bool send(std::string_view bytes) {
    in += bytes;
    return take_requests(*values, in, out);
  }
};

const std::string kRequests =
    bytes_of(Kind::MultiSet, {"a", "1", "b", "2"}) + bytes_of(Kind::Append, {"a", "3"}) +
    bytes_of(Kind::MultiGet, {"a", "b"}) + bytes_of(Kind::Add, {"n", "41"}) +
    bytes_of(Kind::Add, {"n", "1"}) + bytes_of(Kind::Check, {"c"}) + bytes_of(Kind::Delete, {"b"}) +
    bytes_of(Kind::Count);
const std::string kAnswers = bytes_of(Kind::Done) + bytes_of(Kind::Done, {"13", "2"}) +
                             bytes_of(Kind::Done, {"41"}) + bytes_of(Kind::Done, {"42"}) +
                             bytes_of(Kind::Missing) + bytes_of(Kind::Done) +
                             bytes_of(Kind::Done, {"2"});

TEST(StoreRequests, AreAnsweredInWhateverPiecesTheyCome) {
  for (size_t piece = 1; piece <= kRequests.size(); ++piece) {
    Connection one;
    for (size_t at = 0; at < kRequests.size(); at += piece) {
      ASSERT_TRUE(one.send(std::string_view(kRequests).substr(at, piece)));
    }
    ASSERT_EQ(one.out, kAnswers) << "in pieces of " << piece;
    ASSERT_EQ(one.in, "");
  }
}

TEST(StoreRequests, ThatAreNoneEndTheConnection) {
  EXPECT_FALSE(Connection().send(number(kMaxMessageBytes + 1)));
  EXPECT_FALSE(Connection().send(number(0)));
  EXPECT_FALSE(Connection().send(number(1) + '\x7f'));
  EXPECT_FALSE(Connection().send(number(6) + '\0' + number(2) + "x"));  // a text beyond the end
  EXPECT_TRUE(Connection().send(number(kMaxMessageBytes)));             // waits for the rest
}

TEST(StoreRequests, ThatCannotBeAnsweredSayWhy) {
  const std::vector<std::string> all = {bytes_of(Kind::CompareSet, {"a"}),
                                        bytes_of(Kind::Add, {"a", "many"}),
                                        bytes_of(Kind::Add, {"a", "99999999999999999999"}),
                                        bytes_of(Kind::Done)};
  for (const std::string& request : all) {
    Connection one;
    ASSERT_TRUE(one.send(request + bytes_of(Kind::Count)));
    EXPECT_EQ(static_cast<Kind>(one.out[kLengthBytes]), Kind::Failed);
    EXPECT_TRUE(one.out.ends_with(bytes_of(Kind::Done, {"0"})));  // it goes on
  }
}

TEST(StoreRequests, AnAnswerLongerThanAMessageIsNotCollected) {
  Connection one;
  one.values->set("k", std::vector<uint8_t>(size_t{1} << 20));
  ASSERT_TRUE(one.send(bytes_of(Kind::MultiGet, Texts(1'000'000, "k"))));  // of a terabyte
  EXPECT_EQ(static_cast<Kind>(one.out[kLengthBytes]), Kind::Failed);
  EXPECT_LT(one.out.size(), 1000U);
}

}  // namespace
}  // namespace reprise::dist
