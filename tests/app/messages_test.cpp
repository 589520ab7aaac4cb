// What people see who mistype a command or give it another program's file.
#include "app/training.h"

#include <gtest/gtest.h>

#include <string>

namespace reprise {
namespace {

using testing::run_program;
using testing::training_fixture;

class Messages : public testing::Training {};

void expect_said(const testing::ProgramResult& result, const std::string& message) {
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(result.err.find("reprise: ") != std::string::npos) << result.err;
  EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
}

TEST_F(Messages, AMistypedCommandGetsTheNearest) {
  expect_said(run_program({"sfft", "--model", "m"}),
              "reprise: there is no command sfft; did you mean sft? reprise --help lists them\n");
  expect_said(run_program({"xylophone"}), "there is no command xylophone. reprise --help");
  expect_said(run_program({}), "a command is required");
  expect_said(run_program({"--bf16", "sft"}),
              "--bf16: flags come behind the command: reprise sft --bf16");
}

TEST_F(Messages, AMistypedFlagOfAnyCommandGetsTheNearest) {
  expect_said(run_program({"generate", "--model", "m", "--temprature", "1", "--top_p", "1"}),
              "reprise: generate --temprature: there is no such flag; did you mean --temperature?");
  expect_said(run_program({"merge", "--model", "m", "spare"}),
              "merge: \"spare\" belongs to no flag");
  expect_said(run_program({"merge", "--model", "m"}), "merge: --output is required");
  expect_said(run_program({"sft", "--learning_rate"}), "reprise: --learning_rate needs a value\n");
}

TEST_F(Messages, TheLastOfARepeatedFlagIsNamedByEveryCommand) {
  const auto result =
      run_program({"tokenize", "--model", "missing", "--model", training_fixture("models/policy")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(
      result.err,
      "--model was given 2 times: the last is used, " + training_fixture("models/policy") + "\n");
  const auto trained = sft(training_fixture("data/sft_text.jsonl"), {"--max_steps", "1"});
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_NE(trained.err.find("--max_steps was given 2 times: the last is used, 1\n"),
            std::string::npos)
      << trained.err;
  EXPECT_NE(trained.err.find("1 optimizer step\n"), std::string::npos) << trained.err;
}

TEST_F(Messages, FilesOfOtherProgramsAreNamed) {
  expect_said(sft(write("a.parquet", "PAR1....")), "a.parquet: this is a Parquet file; convert");
  expect_said(sft(write("a.csv", "prompt,completion\na,b\n")), "this is a CSV file; convert it");
  const std::string gguf = write("m.gguf", "GGUF");
  for (const testing::Words& words :
       std::vector<testing::Words>{{"sft",
                                    "--model",
                                    gguf,
                                    "--data",
                                    training_fixture("data/sft_text.jsonl"),
                                    "--output_dir",
                                    path("o")},
                                   {"generate", "--model", gguf},
                                   {"tokenize", "--model", gguf},
                                   {"inspect", gguf},
                                   {"plan", "--model", gguf}}) {
    expect_said(run_program(words), "m.gguf: this is a GGUF file; convert it with: reprise import");
  }
  const std::string utf16("\xFF\xFE{\0", 4);
  expect_said(run_program({"tokenize", "--model", training_fixture("models/policy")}, utf16),
              "this is text in UTF-16; convert it with: iconv");
  expect_said(run_program({"sft", "--config", write("c.yaml", utf16)}), "text in UTF-16");
  expect_said(run_program({"init", "--text", write("t", utf16), "--output", path("new")}),
              "text in UTF-16");
}

TEST_F(Messages, TagsOfExceptionsStayInTheLibrary) {
  const std::pair<testing::ProgramResult, const char*> cases[] = {
      {sft(path("missing.jsonl")), "reprise: "},
      {sft(write("bad.jsonl", "{\"text\": 1\n")), "bad.jsonl:1: "},
      {run_program({"generate", "--model", path("missing")}), "no such folder"}};
  for (const auto& [result, message] : cases) {
    expect_said(result, message);
    EXPECT_EQ(result.err.find('['), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace reprise
