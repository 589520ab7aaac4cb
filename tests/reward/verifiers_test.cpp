// Verifiers: what counts as the right answer or the right form, how they are written, and rows that
// they cannot use.
#include <reprise/reward/verifiers.h>

#include "reward/reward_requests.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace reprise {
namespace {

using testing::expect_error;
using testing::score_one;

double score_of(const std::string& spec, const std::string& completion, const Json& answer) {
  return score_one(*make_verifier(spec), completion, {{"answer", answer}});
}

void expect_right(const std::string& spec, const std::string& completion, const Json& answer) {
  EXPECT_EQ(score_of(spec, completion, answer), 1) << completion << " and " << answer;
}

void expect_wrong(const std::string& spec, const std::string& completion, const Json& answer) {
  EXPECT_EQ(score_of(spec, completion, answer), 0) << completion << " and " << answer;
}

TEST(ExactMatch, LooksPastSpaceAtBothEndsOnly) {
  expect_right("exact_match", "  19\n", "19");
  expect_right("exact_match", "19", 19);
  expect_right("exact_match", "true", true);
  expect_wrong("exact_match", "1 9", "19");
  expect_wrong("exact_match", "", "19");
}

TEST(LastNumber, IsReadHoweverItIsWritten) {
  const std::vector<std::pair<std::string, std::string>> same = {
      {"so it is 1,234,567.", "1234567"},
      {"2 + 2 = 4", "4.0"},
      {"x = -3.50", "-7/2"},
      {"about \u22125", "-5"},
      {"it costs -$5.25 in all", "-5.25"},
      {"it costs \\$7", "7"},
      {"one half, 1/2", "0.5"},
      {"2/6", "1/3"},
      {"1.5e3", "1500"},
      {"12e-1", "1.2"},
      {".5", "0.50"},
      {"50%", "50"},
      {"50\\%", "0.5"},
      {"100 000 or 3-4", "4"},
      {"-0", "0"},
      {"007", "7"},
      {"5km", "5"},
      {"12345678901234567890123", "12,345,678,901,234,567,890,123"}};
  for (const auto& [completion, answer] : same) {
    expect_right("last_number", completion, answer);
  }
}

TEST(LastNumber, IsNotMistakenForANearOne) {
  const std::vector<std::pair<std::string, std::string>> different = {
      {"41", "42"},
      {"42, no: 41", "42"},
      {"-42", "42"},
      {"12345678901234567890123", "12345678901234567890124"},
      {"0.3333", "1/3"},
      {"1/0", "0"},
      {"50%", "5"},
      {"12,34", "1234"},
      {"1e9999999999", "1"},
      {"x42", "42"},
      {"no number", "42"},
      {"", "42"}};
  for (const auto& [completion, answer] : different) {
    expect_wrong("last_number", completion, answer);
  }
}

TEST(LastNumber, OfAnAnswerOfGsm8kFollowsItsMark) {
  const std::string answer = "She has 3*4=<<3*4=12>>12 eggs.\n#### 1,012";
  expect_right("last_number", "So the answer is 1012.", answer);
  expect_right("last_number", "... #### 1012", answer);
  expect_wrong("last_number", "12", answer);
}

TEST(LastNumber, NeedsANumberInTheAnswer) {
  expect_error([] { score_of("last_number", "1", "many"); },
               "[reward] last_number: the answer \"many\" has no number to compare with");
}

TEST(Boxed, IsComparedUpToHowLatexWritesIt) {
  const std::vector<std::pair<std::string, std::string>> same = {
      {"\\boxed{42}", "42"},
      {"first \\boxed{1}, then \\boxed{ 2 }.", "2"},
      {"\\boxed{\\frac{1}{2}}", "1/2"},
      {"\\boxed{\\dfrac{1}{2}}", "0.5"},
      {"\\boxed{-\\frac12}", "-\\frac{1}{2}"},
      {"\\boxed{\\frac{x+1}{\\sqrt{2}}}", "\\tfrac{x + 1}{\\sqrt{2}}"},
      {"\\boxed{\\left( 3, \\frac{\\pi}{2} \\right)}", "(3,\\frac{\\pi}{2})"},
      {"\\boxed{5\\text{ cm}^2}", "5"},
      {"\\boxed{\\text{East}}", "East"},
      {"\\boxed{$1,\\!000$}", "1000"},
      {"\\boxed{90^\\circ}", "90"},
      {"\\boxed{12.}", "12"},
      {"\\boxed{15\\%}", "15"},
      {"\\boxed 7$", "7"},
      {"\\fbox{7}", "so \\boxed{7}."},
      {"\\boxed{\\{1, 2\\}}", "\\{1,2\\}"}};
  for (const auto& [completion, answer] : same) {
    expect_right("boxed", completion, answer);
  }
}

TEST(Boxed, IsWrongWithoutABoxOrWithAnotherAnswer) {
  for (const char* completion :
       {"42", "\\boxed{41}", "\\boxed{42", "\\boxed", "\\boxed{}", "\\boxed{42} or \\boxed{43}"}) {
    expect_wrong("boxed", completion, "42");
  }
  expect_wrong("boxed", "\\boxed{x \\text{ or } y}", "x");
}

TEST(Boxed, SurvivesAnyNumberOfBraces) {
  std::string deep;
  for (int i = 0; i < 1000; ++i) {
    deep += "\\frac{";
  }
  const std::string open = "\\boxed{" + std::string(1'000'000, '{');
  expect_wrong("boxed", open, "1");
  expect_wrong("boxed", "\\boxed{" + deep + std::string(1000, '}') + "}", "1");
}

TEST(RegexVerifier, MatchesAnywhereAndTakesCommasInItsPattern) {
  EXPECT_EQ(score_one(*make_verifier("regex:name=digits,pattern=\\d{2,3},=$"), "a 123,="), 1);
  EXPECT_EQ(score_one(*make_verifier("regex:pattern=\\Ayes\\z"), "oh yes"), 0);
  EXPECT_EQ(score_one(*make_verifier("regex:pattern=^yes$"), "oh\nyes"), 1);
  EXPECT_EQ(score_one(*make_verifier("regex:pattern=b"), "\xff\xfe b"), 1) << "not UTF-8";
  EXPECT_EQ(make_verifier("regex:name=digits,pattern=1")->name(), "digits");
}

TEST(RegexVerifier, CannotScoreWhereItTakesTooManySteps) {
  const auto verifier = make_verifier("regex:pattern=\\A(a|aa|a.)+\\z");
  EXPECT_TRUE(std::isnan(score_one(*verifier, std::string(5000, 'a') + "b\n\n")));
  EXPECT_EQ(score_one(*verifier, "aaa"), 1);
}

TEST(RegexVerifier, RefusesAPatternThatIsNone) {
  expect_error([] { make_verifier("regex:pattern=(a"); }, "[reward] the pattern of a regex");
  expect_error([] { make_verifier("regex"); }, "regex needs pattern=");
}

TEST(Format, IsTheTagsOnceEachAndNothingElse) {
  const auto verifier = make_verifier("format");
  EXPECT_EQ(score_one(*verifier, "<think>so\n<b></think>\n<answer>4</answer>\n"), 1);
  for (const char* wrong : {"",
                            "4",
                            "<think>so</think>",
                            "<answer>4</answer><think>so</think>",
                            "x <think>so</think><answer>4</answer>",
                            "<think>so</think> x <answer>4</answer>",
                            "<think>so</think><answer>4</answer> x",
                            "<think>a<think>b</think><answer>4</answer>",
                            "<think>a</think><answer>4</answer><answer>4</answer>",
                            "<think>a<answer>4</answer></think>"}) {
    EXPECT_EQ(score_one(*verifier, wrong), 0) << wrong;
  }
}

TEST(Format, TakesOtherTagsAndTextBehindThem) {
  EXPECT_EQ(score_one(*make_verifier("format:tags=a+b+c"), "<a>1</a> <b>2</b><c></c>"), 1);
  EXPECT_EQ(score_one(*make_verifier("format:tags=think,text_after=yes"), "<think></think> 4"), 1);
  EXPECT_EQ(score_one(*make_verifier("format:tags=think"), "<think></think> 4"), 0);
  expect_error([] { make_verifier("format:tags=a+a"); }, "must be different names");
  expect_error([] { make_verifier("format:tags=a+"); }, "must be different names");
  expect_error([] { make_verifier("format:text_after=maybe"); }, "must be yes or no");
}

TEST(Length, FallsLinearlyBehindItsLimit) {
  const auto verifier = make_verifier("length:limit=100,range=50,penalty=2");
  std::vector<RewardRequest> requests(4);
  requests[0].tokens = 100;
  requests[1].tokens = 125;
  requests[2].tokens = 150;
  requests[3].tokens = 1000;
  EXPECT_EQ(verifier->score(requests), std::vector<double>({0, -1, -2, -2}));
  requests.resize(1);
  requests[0].tokens = 150;
  EXPECT_EQ(make_verifier("length:limit=100")->score(requests), std::vector<double>({-0.5}));
  expect_error([] { make_verifier("length"); }, "length needs limit=");
  expect_error([] { make_verifier("length:limit=-1"); }, "limit must be a number above 0");
  expect_error([] { make_verifier("length:limit=1x"); }, "limit must be a number above 0");
}

TEST(AnswerColumn, IsTheFirstOfTheUsualNamesOrTheGivenOne) {
  const auto usual = make_verifier("exact_match");
  EXPECT_EQ(score_one(*usual, "a", {{"solution", "d"}, {"gt_answer", "b"}, {"answer", "a"}}), 1);
  EXPECT_EQ(score_one(*usual, "b", {{"solution", "d"}, {"gt_answer", "b"}, {"answer", nullptr}}),
            1);
  EXPECT_EQ(score_one(*usual, "c", {{"solution", "d"}, {"label", "c"}}), 1);
  EXPECT_EQ(score_one(*usual, "d", {{"solution", "d"}}), 1);
  const auto given = make_verifier("exact_match:answer=target");
  EXPECT_EQ(score_one(*given, "t", {{"answer", "a"}, {"target", "t"}}), 1);
}

TEST(AnswerColumn, ThatIsNullCannotBeScored) {
  const Json row = {{"answer", nullptr}};
  for (const char* kind : {"exact_match", "last_number", "boxed"}) {
    EXPECT_TRUE(std::isnan(score_one(*make_verifier(kind), "1", row))) << kind;
    EXPECT_NO_THROW(make_verifier(kind)->check(row));
  }
}

TEST(AnswerColumn, ThatIsMissingIsAnErrorBeforeTrainingAndInIt) {
  const auto usual = make_verifier("boxed");
  const std::string message =
      "[reward] boxed: the row has no column answer, gt_answer, label or solution to compare with "
      "(its columns: prompt, target)";
  const Json row = {{"prompt", "1+1="}, {"target", "2"}};
  expect_error([&] { usual->check(row); }, message);
  expect_error([&] { score_one(*usual, "2", row); }, message);
  expect_error([&] { make_verifier("boxed:answer=goal")->check(row); }, "no column \"goal\"");
  expect_error([&] { usual->check({{"answer", Json::array()}}); }, "found an array");
  EXPECT_NO_THROW(make_verifier("format")->check(row));
}

TEST(VerifierSpec, ThatIsNoneIsRefusedWithWhatThereIs) {
  expect_error([] { make_verifier("exact"); },
               "must be one of exact_match, last_number, boxed, regex, format, length; found "
               "\"exact\"");
  expect_error([] { make_verifier(""); }, "must be one of");
  expect_error([] { make_verifier("exact_match:column=a"); },
               "exact_match takes name, answer; found \"column\"");
  expect_error([] { make_verifier("exact_match:answer"); }, "expected key=value, found \"answer\"");
  expect_error([] { make_verifier("exact_match:a,b=c"); }, "expected key=value, found \"a\"");
  expect_error([] { make_verifier("exact_match:answer="); }, "answer is empty");
  expect_error([] { make_verifier("exact_match:answer=a,answer=b"); }, "answer is given twice");
}

}  // namespace
}  // namespace reprise
