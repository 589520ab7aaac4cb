// The commands that make, look at and merge models, and what all of them refuse, with which exit
// code.
#include "app/commands.h"
#include "support/fixtures.h"
#include "support/program.h"
#include "support/tensors.h"

#include <reprise/io/json.h>
#include <reprise/io/tensor_file.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::Commands;
using testing::expect_refused;
using testing::json_lines;
using testing::run_program;

TEST_F(Commands, InitIsReproducible) {
  ASSERT_EQ(run_program({"init", "--text", path("text"), "--output", path("again")}).exit_code, 0);
  for (const auto* file : {"model.safetensors", "config.json", "tokenizer.json"}) {
    EXPECT_EQ(testing::read_text(path("model") + "/" + file),
              testing::read_text(path("again") + "/" + file))
        << file;
  }
  fs::remove_all(path("again"));
}

TEST_F(Commands, InitRefusesAFolderThatIsNotEmpty) {
  const auto before = entries();
  expect_refused(run_program({"init", "--text", path("text"), "--output", path("model")}),
                 "is there already");
  EXPECT_EQ(entries(), before);
}

TEST_F(Commands, InitIsNotForSeveralProcesses) {
  const auto before = entries();
  for (const auto& [name, value] :
       {std::pair{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"MASTER_ADDR", "h"}}) {
    ::setenv(name, value, 1);
  }
  const auto result = run_program({"init", "--text", path("text"), "--output", path("several")});
  for (const char* name : {"PMI_RANK", "PMI_SIZE", "MASTER_ADDR"}) {
    ::unsetenv(name);
  }
  expect_refused(result, "init: 3 processes would write the same files; run it once");
  EXPECT_EQ(entries(), before);
}

TEST_F(Commands, InitLeavesNothingWhenItFails) {
  const auto before = entries();
  std::ofstream(path("bad.json")) << R"({"model_type": "no such family"})";
  expect_refused(
      run_program(
          {"init", "--config", path("bad.json"), "--text", path("text"), "--output", path("new")}),
      "no such family");
  fs::remove(path("bad.json"));
  EXPECT_EQ(entries(), before);
}

TEST_F(Commands, InitFillsTheEmptyFolderThatALinkNames) {
  fs::create_directory(path("empty"));
  fs::create_directory_symlink("empty", path("link"));
  const auto made = run_program({"init", "--text", path("text"), "--output", path("link")});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_TRUE(fs::exists(path("empty") + "/config.json"));
  fs::remove_all(path("empty"));
  // Now it names nothing.
  expect_refused(run_program({"init", "--text", path("text"), "--output", path("link")}), "link");
  fs::remove(path("link"));
}

TEST_F(Commands, InspectSaysWhatTheFolderHolds) {
  const auto result = run_program({"inspect", path("model"), "--dtype", "bfloat16"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const auto* expected : {"llama", "LlamaForCausalLM", "4 layers", "BPE", "AdamW state"}) {
    EXPECT_NE(result.out.find(expected), std::string::npos) << result.out;
  }
}

TEST_F(Commands, InspectWarnsOfATokenizerThatCannotBeOpened) {
  fs::copy(path("model"), path("broken"));
  std::ofstream(path("broken") + "/tokenizer.json") << R"({"model": {"type": "Strange"}})";
  const auto result = run_program({"inspect", path("broken")});
  fs::remove_all(path("broken"));
  EXPECT_EQ(result.exit_code, 0);
  for (const auto* expected : {"not usable: ", "LlamaForCausalLM", "KV cache"}) {
    EXPECT_NE(result.out.find(expected), std::string::npos) << result.out;
  }
  EXPECT_TRUE(result.err.starts_with("warning: the tokenizer")) << result.err;
}

std::vector<std::string> plan_of(const std::string& folder, std::vector<std::string> more) {
  more.insert(more.begin(),
              {"plan", "--model", folder, "--dtype", "bfloat16", "--batch", "32", "--seq", "512"});
  return more;
}

TEST_F(Commands, PlanReadsNothingButTheConfiguration) {
  fs::create_directory(path("planned"));
  fs::copy(path("model") + "/config.json", path("planned"));
  const auto result =
      run_program(plan_of(path("planned"), {"--device", "h200", "--budget", "0.6", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json plan = parse_json(result.out, "output");
  const auto& curve = plan["curve"];
  ASSERT_GE(curve.size(), 2U);
  for (size_t i = 1; i < curve.size(); ++i) {
    EXPECT_GT(curve[i]["activation_bytes"], curve[i - 1]["activation_bytes"]);
    EXPECT_LT(curve[i]["step_ms"], curve[i - 1]["step_ms"]);
  }
  EXPECT_EQ(curve.back()["slowdown"], 1.0);
  EXPECT_LE(plan["chosen"]["activation_bytes"], plan["budget"]);
  EXPECT_GT(plan["batches"].size(), 3U);
  EXPECT_GT(plan["longest_row"], 512);
  EXPECT_NE(plan["command"].get<std::string>().find("--activation_memory_budget"),
            std::string::npos);
  const auto text = run_program(plan_of(path("planned"), {"--device", "cpu", "--lora"}));
  EXPECT_EQ(text.exit_code, 0) << text.err;
  for (const auto* expected :
       {"parameters", "optimizer", "<- within", "<- fastest", "--use_peft"}) {
    EXPECT_NE(text.out.find(expected), std::string::npos) << text.out;
  }
  fs::remove_all(path("planned"));
}

TEST_F(Commands, PlanIsOfOneProcessInAWorld) {
  const auto plan = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--device", "h200", "--json"});
    const auto result = run_program(plan_of(path("model"), std::move(more)));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return parse_json(result.out, "output");
  };
  const Json alone = plan({}), fsdp = plan({"--world", "4", "--parallel", "fsdp"});
  EXPECT_LT(fsdp["kept_bytes"].get<int64_t>() * 3, alone["kept_bytes"].get<int64_t>());
  EXPECT_GT(fsdp["gathered_bytes"], 0);
  EXPECT_GT(fsdp["peak_bytes"], fsdp["kept_bytes"]);
  const auto command = fsdp["command"].get<std::string>();
  EXPECT_TRUE(command.starts_with("reprise launch --nproc 4 ")) << command;
  EXPECT_NE(command.find(" --parallel fsdp"), std::string::npos) << command;
  const auto text = run_program(plan_of(path("model"), {"--device", "cpu", "--world", "2"}));
  for (const auto* expected : {"for each of 2 (ddp)", "kept between steps", "of one process"}) {
    EXPECT_NE(text.out.find(expected), std::string::npos) << text.out << text.err;
  }
}

TEST_F(Commands, PlanRefusesWhatNoDeviceCanDo) {
  const auto refused = [&](std::vector<std::string> more, const std::string& message) {
    expect_refused(run_program(plan_of(path("model"), std::move(more))), message);
  };
  refused({"--parallel", "fsdp"}, "--world");
  refused({"--world", "0"}, "1 to 1000000");
  refused({"--world", "1000001"}, "1 to 1000000");
  refused({"--world", "2", "--parallel", "tp"}, "ddp, zero2 or fsdp");
  refused({"--device", "abacus"}, "h200, h100");
  refused({"--device", "h200", "--budget", "1KiB"}, "take at least");
  refused({"--device", "h200", "--budget", "6"}, "--budget");
  refused({"--device", "h200", "--memory_budget", "900GiB"}, "more than");
  expect_refused(run_program(plan_of(path("text"), {})), "config.json");
}

TEST_F(Commands, InspectSaysThatAFileIsNotAFolder) {
  expect_refused(run_program({"inspect", path("text")}), "is a file, not a folder");
}

TEST_F(Commands, NameTheLineThatIsWrong) {
  const std::string model = path("model");
  expect_refused(run_program({"tokenize", "--model", model}, "{\"text\": \"a\"}\n{\"text\": \n"),
                 "line 2");
  expect_refused(run_program({"tokenize", "--model", model}, "\n\n[1]\n"), "line 3");
  expect_refused(run_program({"tokenize", "--model", model}, "{\"txt\": \"a\"}\n"), "line 1");
  expect_refused(run_program({"score", "--model", model}, "{\"input_ids\": [100000]}\n"), "line 1");
  expect_refused(run_program({"score", "--model", model}, "{\"input_ids\": \"1\"}\n"), "line 1");
  expect_refused(run_program({"generate", "--model", model}, "{\"prompt\": \"\"}\n"), "line 1");
  expect_refused(
      run_program({"generate", "--model", model}, "{\"prompt\": \"a\", \"messages\": []}\n"),
      "several");
}

TEST_F(Commands, GiveThePlaceInABadLineOnce) {
  const auto result = run_program({"tokenize", "--model", path("model")}, "\n{\"text\": oh}\n");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(result.err.starts_with("reprise: line 2: column 10: ")) << result.err;
}

TEST_F(Commands, WriteTheResultsOfTheLinesBeforeABadOne) {
  const std::string input = "{\"text\": \"The fox\"}\n{\"text\": \"The dog\"}\n";
  for (const auto* command : {"score", "generate"}) {
    std::vector<std::string> arguments = {command, "--model", path("model")};
    if (std::string(command) == "generate") {
      arguments.insert(arguments.end(), {"--max_new_tokens", "3"});
    }
    const auto good = run_program(arguments, input);
    ASSERT_EQ(json_lines(good.out).size(), 2U) << good.err;
    for (const auto* bad : {"{\"text\": \n", "{\"input_ids\": [100000]}\n"}) {
      const auto result = run_program(arguments, input + bad + input);
      expect_refused(result, "line 3: ");
      EXPECT_EQ(result.out, good.out) << command;
    }
  }
}

TEST_F(Commands, NameTheFolderThatIsNotThere) {
  for (const auto* command : {"tokenize", "score", "generate", "chat"}) {
    expect_refused(run_program({command, "--model", path("missing")}), path("missing"));
  }
  expect_refused(run_program({"inspect", path("missing")}), path("missing"));
  expect_refused(run_program({"import", path("missing"), path("new")}), path("missing"));
  EXPECT_FALSE(fs::exists(path("new")));
}

TEST_F(Commands, ACommandLineThatIsNotUnderstoodHasItsOwnExitCode) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {},
           {"no_such_command"},
           {"generate"},
           {"generate", "--model", path("model"), "--no_such_flag"},
           {"generate", "--model", path("model"), "--chat"},
           {"score", "--model", path("model"), "--batch_size", "0"},
           {"score", "--model", path("model"), "--bf16", "--fp16"},
           {"score", "--model", path("model"), "--dtype", "int4"}}) {
    const auto result = run_program(arguments);
    EXPECT_GE(result.exit_code, 100);
    EXPECT_FALSE(result.err.empty());
    EXPECT_TRUE(result.out.empty()) << result.out;
  }
  const auto help = run_program({"generate", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.out.find("--repetition_penalty"), std::string::npos);
}

TEST_F(Commands, RefuseSamplingThatHasNoMeaning) {
  std::vector<std::string> words{
      "generate", "--model", path("model"), "--prompt", "a", "--top_p", "2"};
  expect_refused(run_program(words), "--top_p has no effect with --temperature 0");
  words.insert(words.end(), {"--temperature", "1"});
  expect_refused(run_program(words), "top_p: expected");
}

TEST(ScoreCommand, EqualsTransformersWithoutATokenizer) {
  const auto folder = testing::fixtures() / "models" / "llama";
  const TensorFile expected(folder / "expected.safetensors");
  const auto ids = expected.view(*expected.find("input_ids"));
  const auto mask = expected.view(*expected.find("attention_mask"));
  const auto logprobs = expected.view(*expected.find("logits")).log_softmax(-1);
  std::string input;
  for (int64_t row = 0; row < ids.size(0); ++row) {
    const auto tokens = ids[row].masked_select(mask[row].to(at::kBool)).contiguous();
    const Json line = {{"input_ids",
                        std::vector<int64_t>(tokens.const_data_ptr<int64_t>(),
                                             tokens.const_data_ptr<int64_t>() + tokens.numel())}};
    input += line.dump() + "\n";
  }
  const auto result = run_program({"score", "--model", folder.string()}, input);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto lines = json_lines(result.out);
  ASSERT_EQ(static_cast<int64_t>(lines.size()), ids.size(0));
  for (int64_t row = 0; row < ids.size(0); ++row) {
    const auto& found = lines[static_cast<size_t>(row)]["logprobs"];
    for (size_t t = 1; t < found.size(); ++t) {
      const auto place = static_cast<int64_t>(t);
      EXPECT_NEAR(
          found[t].get<double>(), logprobs[row][place - 1][ids[row][place]].item<double>(), 1e-4);
    }
  }
}

TEST(MergeCommand, EqualsPeftAndOpensAgain) {
  const testing::TemporaryFolder folder;
  const auto base = testing::fixtures() / "models" / "llama";
  const auto adapter = testing::fixtures() / "adapters" / "llama_qv";
  const std::string merged = (folder.path() / "merged").string();
  const auto made = run_program(
      {"merge", "--model", base.string(), "--adapter", adapter.string(), "--output", merged});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const TensorFile expected(adapter / "expected.safetensors");
  const TensorCheckpoint found(merged);
  size_t compared = 0;
  for (const auto& info : expected.tensors()) {
    const std::string prefix = "merged.";
    if (info.name.starts_with(prefix)) {
      EXPECT_TRUE(at::allclose(
          found.view(info.name.substr(prefix.size())), expected.view(info), 1e-5, 1e-6))
          << info.name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 0U);
  const std::string input = "{\"input_ids\": [5, 9, 3, 7]}\n";
  const auto with_adapter =
      run_program({"score", "--model", base.string(), "--adapter", adapter.string()}, input);
  const auto after = run_program({"score", "--model", merged}, input);
  const Json a = json_lines(with_adapter.out).at(0)["logprobs"];
  const Json b = json_lines(after.out).at(0)["logprobs"];
  for (size_t t = 1; t < a.size(); ++t) {
    EXPECT_NEAR(a[t].get<double>(), b[t].get<double>(), 1e-4);
  }
}

}  // namespace
}  // namespace reprise
