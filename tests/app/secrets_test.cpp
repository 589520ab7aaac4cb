// Passwords and tokens of a reward server: they reach the server and nothing else, and a resumed
// run reads them anew.
#include "app/online_training.h"
#include "reward/http_server.h"

#include <cstdlib>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::http_response;
using testing::HttpServer;
using testing::Words;

class Secrets : public testing::OnlineTraining {
 protected:
  /// Four completions a step.
  static std::vector<std::string> rewards() {
    return {http_response("200 OK", R"({"rewards": [1, 0, 0, 1]})")};
  }

  /// The files of the run that contain a text.
  std::string files_with(const std::string& text) const {
    std::string names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path() / "out")) {
      if (entry.is_regular_file() && contains(testing::read_text(entry.path()), text)) {
        names += entry.path().string() + " ";
      }
    }
    return names;
  }

  testing::ProgramResult resume(const Words& more) {
    fs::remove_all(folder_.path() / "out" / "checkpoint-2");
    Words words{"grpo", "--config", path("out/training.yaml"), "--resume_from_checkpoint", "auto"};
    words.insert(words.end(), more.begin(), more.end());
    return testing::run_program(words);
  }
};

TEST_F(Secrets, OfAUrlAreInNoFileAndNoMessage) {
  const HttpServer server(rewards());
  std::string url = server.url("/score?key=t0ken");
  url.insert(url.find("127"), "jane:hunter2@");
  const auto result = online("grpo", {"--reward_url", url, "--save_steps", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(server.requests().at(0), "Authorization: Basic "));
  EXPECT_TRUE(contains(server.requests().at(0), "POST /score?key=t0ken "));
  EXPECT_NE(files_with("***@127.0.0.1"), "");
  for (const char* secret : {"hunter2", "t0ken"}) {
    EXPECT_EQ(files_with(secret), "");
    EXPECT_FALSE(contains(result.err + result.out, secret)) << result.err;
  }
  const auto without = resume({});
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_TRUE(contains(without.err, "passwords and queries are not saved")) << without.err;
  const auto again = resume({"--reward_url", url});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_TRUE(contains(again.err, "resuming after step 1 of 2")) << again.err;
}

TEST_F(Secrets, OfAFileAreReadAnewByAResumedRun) {
  const HttpServer server(rewards());
  const std::string file = write("token", "t0ken\n");
  const auto refused = online("grpo", {"--reward_url", server.url(), "--reward_auth_file", file});
  EXPECT_TRUE(contains(refused.err, "other users may read it")) << refused.err;
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  fs::remove_all(folder_.path() / "out");
  const auto result = online(
      "grpo", {"--reward_url", server.url(), "--reward_auth_file", file, "--save_steps", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(server.requests().at(0), "Authorization: Bearer t0ken\r\n"));
  EXPECT_EQ(files_with("t0ken"), "");
  std::ofstream(file) << "n3w";
  const auto again = resume({});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_TRUE(contains(server.requests().back(), "Authorization: Bearer n3w\r\n"));
  ::setenv("REPRISE_REWARD_TOKEN", "v4riable", 1);
  const auto both = resume({});
  ::unsetenv("REPRISE_REWARD_TOKEN");
  EXPECT_TRUE(contains(both.err, "are both set; expected one of them")) << both.err;
}

TEST_F(Secrets, OfTheEnvironmentDoNotReachARewardCommand) {
  ::setenv("REPRISE_REWARD_TOKEN", "v4riable", 1);
  const auto result =
      online("grpo",
             {"--reward_command",
              "env > '" + path("environment") + "'; while read line; do echo 1; done"});
  ::unsetenv("REPRISE_REWARD_TOKEN");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto environment = testing::read_text(path("environment"));
  EXPECT_TRUE(contains(environment, "PATH="));
  EXPECT_FALSE(contains(environment, "v4riable"));
}

TEST_F(Secrets, OfACommandLineThatIsWrongAreNotQuoted) {
  const std::string url = "http://jane:hunter2@host/";
  for (const Words& words :
       {Words{"--reward_ur", url}, Words{url}, Words{"--reward_url=" + url, "--beta", url}}) {
    const auto result = online("grpo", words);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_FALSE(contains(result.err + result.out, "hunter2")) << result.err;
  }
  const auto wrong = online("grpo", {"--reward_url", "http://jane:hunter2/3@host:x"});
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_FALSE(contains(wrong.err + wrong.out, "hunter2")) << wrong.err;
}

}  // namespace
}  // namespace reprise
