// The facts of a run in its report: where, when and how it was made, without secrets.
#include "reprise/training/run/run_facts.h"

#include <gtest/gtest.h>

#include <string>

namespace reprise {
namespace {

using app::command_text;
using app::run_facts;

TEST(RunFacts, ACommandCanBePastedIntoAShell) {
  EXPECT_EQ(command_text({"reprise", "sft", "--data", "a b.jsonl", "--note=it's", "", "$HOME"}),
            "reprise sft --data 'a b.jsonl' '--note=it'\\''s' '' '$HOME'");
}

TEST(RunFacts, HaveNoPasswordsQueriesOrTokens) {
  const auto text = command_text({"reprise",
                                  "grpo",
                                  "--reward_url",
                                  "https://jane:hunter2@host/score?key=t0ken",
                                  "--other_url=http://joe:pass1@host",
                                  "--hub_secret",
                                  "s1",
                                  "--api_key=s2",
                                  "--reward_auth_file",
                                  "token.txt"});
  for (const char* secret : {"hunter2", "jane", "t0ken", "pass1", "s1", "s2"}) {
    EXPECT_EQ(text.find(secret), std::string::npos) << text;
  }
  EXPECT_NE(text.find("--reward_auth_file token.txt"), std::string::npos) << text;
  EXPECT_NE(text.find("host/score"), std::string::npos) << text;
}

TEST(RunFacts, SayWhenWhereAndWithWhat) {
  const Json facts = run_facts("1.2.3");
  EXPECT_EQ(facts["version"], "1.2.3");
  for (const char* name : {"date", "host", "libtorch", "command"}) {
    EXPECT_FALSE(facts[name].get<std::string>().empty()) << name;
  }
  EXPECT_NE(facts["command"].get<std::string>().find("app_tests"), std::string::npos);
}

}  // namespace
}  // namespace reprise
