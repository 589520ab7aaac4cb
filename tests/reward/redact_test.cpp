// URLs as files and terminals get them.
#include <reprise/reward/url.h>

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace reprise {
namespace {

TEST(RedactedUrl, HasNoUserPasswordAndValuesOfTheQuery) {
  const std::pair<const char*, const char*> urls[] = {
      {"http://host:5000/score", "http://host:5000/score"},
      {"http://jane:s3cret@host/score", "http://***@host/score"},
      {"https://t0ken@host", "https://***@host"},
      {"https://jane:p@ss@host/", "https://***@host/"},
      {"jane:s3cret@host/score", "***@host/score"},
      {"http://host/a@b", "http://host/a@b"},
      {"http://host/?token=t0ken", "http://host/?token=***"},
      {"http://host/?a=1&b=&c;d=2", "http://host/?a=***&b=***&***;d=***"},
      {"http://host/?t0ken", "http://host/?***"},
      {"http://j:s@host/?k=v#fr4gment", "http://***@host/?k=***"},
      {"jane:s3cret@host/?back=http://here", "***@host/?back=***"},
      {"http://jane:s3 cret@host/", "http://***@host/"},
      {"", ""},
      {"://@", "://***@"}};
  for (const auto& [url, expected] : urls) {
    EXPECT_EQ(redacted_url(url), expected);
    EXPECT_EQ(redacted_url(expected), expected);
  }
}

TEST(RedactedUrl, PasswordsLeaveEveryUrlOfAText) {
  EXPECT_EQ(without_passwords("tried http://a:b@c/d?e=f, then https://g:h@i: \"no\"; see x@y"),
            "tried http://***@c/d?e=f, then https://***@i: \"no\"; see x@y");
  EXPECT_EQ(without_passwords("http://host and jane@host"), "http://host and jane@host");
  EXPECT_EQ(without_passwords("no URL"), "no URL");
}

}  // namespace
}  // namespace reprise
