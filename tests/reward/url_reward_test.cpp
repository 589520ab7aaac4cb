// Rewards over HTTP, from a server in this process: what is sent, what is repeated, what is
// refused.
#include <reprise/reward/url.h>

#include "reward/http_server.h"
#include "reward/reward_requests.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace reprise {
namespace {

using namespace std::chrono_literals;
using testing::error_of;
using testing::expect_error;
using testing::http_response;
using testing::HttpServer;
using testing::RewardRequests;

RewardRequests two() {
  RewardRequests batch;
  batch.add("1+1=", "2", {{"gt_answer", "2"}, {"id", 9}}).add("q", "\xff");
  return batch;
}

std::string good() {
  return http_response("200 OK", R"({"rewards": [1.5, null]})");
}

UrlRewardOptions options_for(const std::string& url) {
  return {.url = url, .timeout = 10s, .first_wait = 1ms};
}

std::vector<double> score(const UrlRewardOptions& options) {
  const RewardRequests batch = two();
  return make_url_reward(options)->score(batch.requests);
}

void expect_url_failure(const UrlRewardOptions& options, const std::string& part) {
  expect_error([&] { score(options); }, part);
}

std::string body_of(const std::string& request) {
  return request.substr(request.find("\r\n\r\n") + 4);
}

TEST(UrlReward, PostsTheRequestsAndReadsTheRewards) {
  const HttpServer server({good()});
  const auto rewards = score(options_for(server.url()));
  ASSERT_EQ(rewards.size(), 2U);
  EXPECT_EQ(rewards[0], 1.5);
  EXPECT_TRUE(std::isnan(rewards[1]));
  ASSERT_EQ(server.requests().size(), 1U);
  const std::string request = server.requests()[0];
  EXPECT_EQ(request.find("POST /score HTTP/1.1\r\n"), 0U) << request;
  EXPECT_NE(request.find("Content-Type: application/json\r\n"), std::string::npos);
  EXPECT_EQ(body_of(request),
            R"({"requests":[{"id":0,"prompt":"1+1=","completion":"2","is_finished":true,)"
            R"("gt_answer":"2","row":{"id":9}},)"
            R"({"id":1,"prompt":"q","completion":")"
            "\ufffd"
            R"(","is_finished":true}]})");
}

TEST(UrlReward, SpeaksOpenRlhfsProtocolIfAsked) {
  const HttpServer server({good()});
  UrlRewardOptions options = options_for(server.url());
  options.format = UrlRewardFormat::OpenRlhf;
  EXPECT_EQ(score(options)[0], 1.5);
  EXPECT_EQ(body_of(server.requests().at(0)),
            "{\"query\":[\"1+1=2\",\"q\ufffd\"],\"prompts\":[\"1+1=\",\"q\"],"
            "\"labels\":[\"2\",null]}");
}

TEST(UrlReward, RepeatsWhatMayPass) {
  const HttpServer server({http_response("500 Internal Server Error", "loading"),
                           http_response("429 Too Many Requests", "slowly"),
                           "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"rewa",
                           good()});
  EXPECT_EQ(score(options_for(server.url()))[0], 1.5);
  EXPECT_EQ(server.requests().size(), 4U);
  EXPECT_EQ(body_of(server.requests()[3]), body_of(server.requests()[0]));
}

TEST(UrlReward, GivesUpAfterItsRetriesWithStatusAndBody) {
  const HttpServer server({http_response("503 Unavailable", std::string(300, 'x'))});
  UrlRewardOptions options = options_for(server.url());
  options.retries = 2;
  expect_url_failure(options,
                     "[reward] url: " + server.url() +
                         " after 3 attempts: expected a status of success, found 503 and \"" +
                         std::string(200, 'x') + "...\"");
  EXPECT_EQ(server.requests().size(), 3U);
}

TEST(UrlReward, DoesNotRepeatWhatIsRefused) {
  const HttpServer server({http_response("404 Not Found", "no such path")});
  expect_url_failure(options_for(server.url()),
                     ": expected a status of success, found 404 and \"no such");
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST(UrlReward, SaysThatNobodyIsThere) {
  std::string url;
  { url = HttpServer({good()}).url(); }
  expect_url_failure(options_for(url),
                     "[reward] url: " + url + " after 7 attempts: Failed to connect");
}

TEST(UrlReward, SaysThatNobodyAnswersInTime) {
  const HttpServer server({""});
  UrlRewardOptions options = options_for(server.url());
  options.timeout = 300ms;
  options.retries = 1;
  expect_url_failure(options, " after 2 attempts: Operation timed out");
}

TEST(UrlReward, RefusesAnswersOfAnotherForm) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"<html>", "the response is not JSON ("},
      {"{\"rewards\": [NaN, 1]}", "the response is not JSON ("},
      {"[1, 2]", "expected {\"rewards\": [...]}, found \"[1, 2]\""},
      {"{\"reward\": [1, 2]}", "expected {\"rewards\": [...]}, found"},
      {"{\"rewards\": [1]}", "expected 2 rewards, found 1: "},
      {"{\"rewards\": [1, 2, 3]}", "expected 2 rewards, found 3: "},
      {"{\"rewards\": [1, \"2\"]}", "reward 1 must be a number or null, found a string"}};
  for (const auto& [body, message] : cases) {
    const HttpServer server({http_response("200 OK", body)});
    expect_url_failure(options_for(server.url()), message);
    EXPECT_EQ(server.requests().size(), 1U) << body;
  }
}

TEST(UrlReward, BoundsTheSizeOfAnAnswer) {
  const HttpServer server({http_response("200 OK", std::string(100'000, ' '))});
  UrlRewardOptions options = options_for(server.url());
  options.max_response_bytes = 50'000;
  expect_url_failure(options, "answered with more than 50000 bytes");
}

TEST(UrlReward, NeverShowsUserAndPassword) {
  const HttpServer server({http_response("401 Unauthorized", "who?")});
  std::string url = server.url();
  url.insert(url.find("127"), "jane:s3cret@");
  const std::string message = error_of([&] { score(options_for(url)); });
  EXPECT_NE(message.find("http://***@127.0.0.1:"), std::string::npos) << message;
  EXPECT_EQ(message.find("s3cret"), std::string::npos) << message;
  EXPECT_NE(server.requests().at(0).find("Authorization: Basic "), std::string::npos);
}

TEST(UrlReward, SendsATokenToItsServerOnlyAndShowsItToNobody) {
  const HttpServer server({http_response("403 Forbidden", "not with Bearer t0ken!")});
  UrlRewardOptions options = options_for(server.url("/score?key=k3y&v=1"));
  options.authorization = "Bearer t0ken";
  const std::string message = error_of([&] { score(options); });
  EXPECT_NE(message.find("/score?key=***&v=***"), std::string::npos) << message;
  EXPECT_NE(message.find("not with Bearer ***!"), std::string::npos) << message;
  EXPECT_EQ(message.find("t0ken"), std::string::npos) << message;
  const std::string request = server.requests().at(0);
  EXPECT_NE(request.find("Authorization: Bearer t0ken\r\n"), std::string::npos) << request;
  EXPECT_EQ(request.find("POST /score?key=k3y&v=1 "), 0U) << request;

  const HttpServer target({good()});
  const HttpServer redirecting(
      {http_response("307 Temporary Redirect", "", "Location: " + target.url() + "\r\n")});
  options.url = redirecting.url();
  EXPECT_EQ(score(options)[0], 1.5);
  EXPECT_NE(redirecting.requests().at(0).find("t0ken"), std::string::npos);
  EXPECT_EQ(target.requests().at(0).find("t0ken"), std::string::npos);

  options.url = "http://jane:s3cret@localhost/";
  expect_error([&] { make_url_reward(options); }, "has a user or password, and there is a token");
  options = options_for(server.url());
  options.authorization = "Bearer a\r\nHost: elsewhere";
  expect_error([&] { make_url_reward(options); }, "has control characters");
}

TEST(UrlReward, FollowsARedirectOverHttpAndNoOther) {
  const HttpServer target({good()});
  const HttpServer server(
      {http_response("307 Temporary Redirect", "", "Location: " + target.url() + "\r\n")});
  EXPECT_EQ(score(options_for(server.url()))[0], 1.5);
  EXPECT_EQ(body_of(target.requests().at(0)), body_of(server.requests().at(0)));
  const HttpServer liar({http_response("302 Found", "", "Location: file:///etc/hostname\r\n")});
  UrlRewardOptions options = options_for(liar.url());
  options.retries = 0;
  expect_url_failure(options, "rotocol \"file\"");
}

TEST(UrlReward, NeedsAnHttpUrl) {
  expect_error([] { make_url_reward({.url = "file:///etc/passwd"}); },
               "[reward] expected an http or https URL, found file://");
  expect_error([] { make_url_reward({.url = "ftp://localhost/x"}); }, "found ftp://");
  expect_error([] { make_url_reward({.url = ""}); }, "expected a URL such as");
  expect_error([] { make_url_reward({.url = "http://"}); }, "expected a URL such as");
  expect_error([] { make_url_reward({.url = "http://localhost", .timeout = 0ms}); },
               "expected a time-out");
}

}  // namespace
}  // namespace reprise
