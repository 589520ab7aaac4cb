// What the training commands refuse or survive: bad data, other runs' folders, no disk, no memory.
#include "app/training.h"

#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>

#include <torch/cuda.h>

#include <limits>
#include <utility>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::run_program;
using testing::Training;
using testing::training_fixture;

/// 512 rows of about 1000 tokens each.
std::string long_rows() {
  std::string rows;
  const std::string row = "{\"text\": \"" + std::string(1200, 'z') + "\"}\n";
  for (int i = 0; i < 512; ++i) {
    rows += row;
  }
  return rows;
}

struct BadInput {
  const char* what;
  std::string rows;
  const char* message;
};

TEST_F(Training, RefusesBadDataWithFileLineAndReason) {
  const std::string good = R"({"prompt": "One and", "completion": " two"})";
  const std::vector<BadInput> inputs{
      {"empty", "", "the file has no rows"},
      {"not JSON", good + "\n{\"prompt\": ", "data.jsonl:2"},
      {"wrong keys", R"({"question": "a", "answer": "b"})", "data.jsonl:1"},
      {"mixed", good + "\n" + R"({"text": "All of it."})", "data.jsonl:2"},
  };
  for (const auto& input : inputs) {
    const auto result = sft(write("data.jsonl", input.rows), {"--overwrite_output_dir"});
    EXPECT_EQ(result.exit_code, 1) << input.what << "\n" << result.err;
    EXPECT_TRUE(contains(result.err, input.message)) << input.what << "\n" << result.err;
  }
}

TEST_F(Training, SkipsAndCountsBadRowsOnlyWhenAsked) {
  const std::string rows = R"({"text": "A good row, long enough to learn from."})"
                           "\n{\"text\": 7}\n";
  const auto data = write("data.jsonl", rows);
  EXPECT_EQ(sft(data).exit_code, 1);
  const auto result = sft(data, {"--skip_bad_rows", "--overwrite_output_dir"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(result.err, "1 bad rows skipped")) << result.err;
  EXPECT_TRUE(contains(result.err, "data.jsonl:2")) << result.err;
}

TEST_F(Training, RefusesWeightsInFloat16UnlessTheyAreConverted) {
  const fs::path half = path("half");
  fs::copy(training_fixture("models/policy"), half, fs::copy_options::recursive);
  Json config = read_json(half / "config.json");
  config.erase("torch_dtype");
  config["dtype"] = "float16";
  fs::remove(half / "config.json");
  write_json(half / "config.json", config);
  const auto data = training_fixture("data/sft_messages.jsonl");
  const auto result = sft(data, {"--model", half.string()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.err, "is stored as float16, which training would need loss scaling"))
      << result.err;
  EXPECT_EQ(
      sft(data, {"--model", half.string(), "--bf16", "--max_steps", "1", "--overwrite_output_dir"})
          .exit_code,
      0);
}

TEST_F(Training, RefusesDataOfWhichNoTokenIsTrained) {
  const std::string prompt(400, 'x');
  const auto data =
      write("data.jsonl", R"({"prompt": ")" + prompt + R"(", "completion": " y"})" + "\n");
  const auto result = sft(data, {"--max_length", "16"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.err, "no label")) << result.err;
}

TEST_F(Training, RefusesFlagsThatTheRowsHaveNoUseFor) {
  const auto data = training_fixture("data/sft_messages.jsonl");
  for (const auto& [words, message] : std::vector<std::pair<testing::Words, std::string>>{
           {{"--prompt_key", "question"}, "prompt_key has no effect"},
           {{"--input_template", "User: {}"}, "input_template applies to plain-text prompts"}}) {
    const auto result = sft(data, words);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_TRUE(contains(result.err, "sft_messages.jsonl:1: " + message)) << result.err;
  }
}

TEST_F(Training, RefusesToOffloadATeacherWhereThereIsNoGpu) {
  if (torch::cuda::is_available()) {
    GTEST_SKIP() << "there is a GPU";
  }
  const auto result = run_program({"kd",
                                   "--model",
                                   training_fixture("models/policy"),
                                   "--teacher_model",
                                   training_fixture("models/teacher"),
                                   "--data",
                                   training_fixture("data/sft_completion.jsonl"),
                                   "--output_dir",
                                   path("out"),
                                   "--teacher_offload"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.err, "--teacher_offload has no effect without a GPU")) << result.err;
}

TEST_F(Training, RefusesAKernelOfGpusWhereThereIsNone) {
  if (torch::cuda::is_available()) {
    GTEST_SKIP() << "there is a GPU";
  }
  for (const std::string kernel : {"flash", "cudnn"}) {
    const auto result = run_program({"sft",
                                     "--model",
                                     training_fixture("models/policy"),
                                     "--data",
                                     training_fixture("data/sft_text.jsonl"),
                                     "--output_dir",
                                     path("out"),
                                     "--attention",
                                     kernel});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_TRUE(contains(result.err, "--attention " + kernel + " has no effect without a GPU"))
        << result.err;
  }
}

TEST_F(Training, TellsOnceThatAPromptEndsInsideOfAToken) {
  const auto data = write("data.jsonl",
                          R"({"prompt": "so", "completion": " the end of it"})"
                          "\n"
                          R"({"prompt": "so t", "completion": "he end of it"})"
                          "\n"
                          R"({"prompt": "no t", "completion": "he end of it"})"
                          "\n");
  const auto result = sft(data);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(result.err, "data.jsonl:2: the prompt alone ends in")) << result.err;
  EXPECT_FALSE(contains(result.err, "data.jsonl:3: ")) << result.err;
}

TEST_F(Training, RefusesLabelsThatTheHeadHasNot) {
  const auto data = write("data.jsonl",
                          R"({"prompt": "2+2?", "completions": ["Four."], "labels": [2]})"
                          "\n");
  const auto result = train("prm", {"--model", training_fixture("models/steps"), "--data", data});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.err, "data.jsonl:1")) << result.err;
  EXPECT_TRUE(contains(result.err, "from 0 to 1, found 2")) << result.err;
}

TEST_F(Training, RefusesATokenizerWithMoreTokensThanTheModel) {
  fs::copy(training_fixture("models/policy"), path("model"));
  Json config = read_json(folder_.path() / "model" / "tokenizer.json");
  config["added_tokens"].push_back({{"id", 100000},
                                    {"content", "<far>"},
                                    {"special", true},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false}});
  write_json(folder_.path() / "model" / "tokenizer.json", config);
  const auto result =
      train("sft", {"--model", path("model"), "--data", training_fixture("data/sft_text.jsonl")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.err, "do not belong together")) << result.err;
}

TEST_F(Training, NamesTheRowWhoseLossIsNotFinite) {
  fs::copy(training_fixture("models/policy"), path("model"));
  {
    const TensorFile file(fs::path(training_fixture("models/policy")) / "model.safetensors");
    NamedTensors tensors;
    for (const auto& info : file.tensors()) {
      tensors.emplace_back(info.name, file.view(info).clone());
      if (info.name == "model.embed_tokens.weight") {
        // The byte Q stands in one row only.
        const Json tokenizer = read_json(fs::path(path("model")) / "tokenizer.json");
        tensors.back().second[tokenizer["model"]["vocab"]["Q"].get<int64_t>()].fill_(
            std::numeric_limits<float>::infinity());
      }
    }
    write_safetensors(folder_.path() / "model" / "model.safetensors", tensors);
  }
  const auto data = write("data.jsonl",
                          "{\"text\": \"a plain row\"}\n{\"text\": \"so Q it is\"}\n"
                          "{\"text\": \"and another one\"}\n");
  const auto result = train("sft", {"--model", path("model"), "--data", data});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.err, "data.jsonl:2")) << result.err;
  EXPECT_TRUE(contains(result.err, "not finite")) << result.err;
}

TEST_F(Training, DoesNotTouchAnotherRunsFolderUnlessTold) {
  const auto data = training_fixture("data/sft_text.jsonl");
  ASSERT_EQ(sft(data).exit_code, 0);
  const auto before = testing::read_text(path("out/model.safetensors"));
  const auto refused = sft(data, {"--learning_rate", "0.1"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(contains(refused.err, "holds another run")) << refused.err;
  EXPECT_EQ(testing::read_text(path("out/model.safetensors")), before);
}

TEST_F(Training, GoesOnOnlyWithTheSameSettingsButAnyMemoryPolicy) {
  const auto data = training_fixture("data/sft_text.jsonl");
  ASSERT_EQ(sft(data, {"--save_steps", "1"}).exit_code, 0);
  const auto other = sft(data, {"--resume_from_checkpoint", "auto", "--learning_rate", "0.1"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_TRUE(contains(other.err, "--learning_rate: was 2e-05, now 0.1")) << other.err;
  const auto before = testing::read_text(path("out/model.safetensors"));
  fs::remove(path("out/model.safetensors"));
  const auto again = sft(data,
                         {"--resume_from_checkpoint",
                          "auto",
                          "--gradient_checkpointing",
                          "--gradient_checkpointing_policy",
                          "attention"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(testing::read_text(path("out/model.safetensors")), before);
}

TEST_F(Training, DoesNotGoOnWithOtherData) {
  const auto data =
      write("data.jsonl", testing::read_text(training_fixture("data/sft_text.jsonl")));
  ASSERT_EQ(sft(data, {"--save_steps", "1"}).exit_code, 0);
  std::ofstream(data, std::ios::app) << "{\"text\": \"one more\"}\n";
  const auto result = sft(data, {"--save_steps", "1", "--resume_from_checkpoint", "auto"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.err, "the data, its tokenizer or how rows are read have changed"))
      << result.err;
}

TEST_F(Training, AFullDiskIsAnErrorAndLeavesTheLastCheckpointWhole) {
  const auto data = training_fixture("data/sft_text.jsonl");
  const std::string command =
      "ulimit -f 200; exec " + testing::shell_quoted(testing::program().string()) +
      " sft --model " + testing::shell_quoted(training_fixture("models/policy")) + " --data " +
      testing::shell_quoted(data) + " --output_dir " + testing::shell_quoted(path("out")) +
      " --cache_dir " + testing::shell_quoted(path("cache")) +
      " --device cpu --max_steps 3 --per_device_train_batch_size 4 --save_steps 1"
      " --resume_from_checkpoint auto 2> " +
      testing::shell_quoted(path("err"));
  // One checkpoint while there is room: its optimizer file is larger than the limit above.
  ASSERT_EQ(sft(data, {"--save_steps", "1"}).exit_code, 0);
  for (const char* name : {"checkpoint-2", "model.safetensors"}) {
    fs::remove_all(folder_.path() / "out" / name);
  }
  const auto state = testing::read_text(path("out/checkpoint-1/optimizer.safetensors"));
  EXPECT_NE(std::system(command.c_str()), 0);
  EXPECT_TRUE(contains(testing::read_text(path("err")), "cannot write"))
      << testing::read_text(path("err"));
  EXPECT_EQ(testing::read_text(path("out/checkpoint-1/optimizer.safetensors")), state);
  EXPECT_FALSE(fs::exists(path("out/checkpoint-2")));
}

TEST_F(Training, OutOfMemoryTellsWhoUsedWhatAndWhichFlagHelps) {
  const std::string command =
      "ulimit -v 2100000; exec " + testing::shell_quoted(testing::program().string()) +
      " sft --model " + testing::shell_quoted(training_fixture("models/policy")) + " --data " +
      testing::shell_quoted(write("data.jsonl", long_rows())) + " --output_dir " +
      testing::shell_quoted(path("out")) + " --cache_dir " + testing::shell_quoted(path("cache")) +
      " --device cpu --max_steps 1 --per_device_train_batch_size 512 --max_length 1024 "
      "--allow_untrained_positions 2> " +
      testing::shell_quoted(path("err"));
  EXPECT_NE(std::system(command.c_str()), 0);
  const auto text = testing::read_text(path("err"));
  EXPECT_TRUE(contains(text, "out of memory in step 1")) << text;
  EXPECT_TRUE(contains(text, "parameters: ")) << text;
  EXPECT_TRUE(contains(text, "--gradient_checkpointing: keeps")) << text;
  EXPECT_TRUE(contains(text, "--per_device_train_batch_size 256")) << text;
}

}  // namespace
}  // namespace reprise
