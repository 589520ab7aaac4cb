// What the library examples share: a model small enough for a CPU, examples of
// bytes, and a folder that disappears
// again.
#pragma once

#include <reprise/memory.h>
#include <reprise/train.h>

#include <ATen/ATen.h>

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// A Llama of two blocks with random weights. Tokens are bytes of ASCII text.
inline std::shared_ptr<reprise::Model> tiny_model() {
  const reprise::Json config = {{"model_type", "llama"},
                                {"vocab_size", 128},
                                {"hidden_size", 64},
                                {"intermediate_size", 176},
                                {"num_hidden_layers", 2},
                                {"num_attention_heads", 4},
                                {"max_position_embeddings", 128}};
  auto model = std::make_shared<reprise::Model>(
      reprise::ModelConfig::from_json(config, "tiny_model()"), reprise::HeadKind::CausalLm);
  model->initialize(/*seed=*/1);
  return model;
}

/// A prompt and its completion as bytes; only the completion is trained on.
inline reprise::Example byte_example(const std::string& prompt, const std::string& completion) {
  reprise::TokenSequence sequence;
  for (const char letter : prompt + completion) {
    const bool is_completion = sequence.ids.size() >= prompt.size();
    sequence.ids.push_back(letter);
    sequence.labels.push_back(is_completion ? letter : reprise::kIgnoredLabel);
  }
  sequence.prompt = static_cast<int64_t>(prompt.size());
  return {.sequences = {sequence}};
}

/// Examples in memory. dataset.cpp shows a Dataset that makes them.
class ExampleList final : public reprise::Dataset {
 public:
  explicit ExampleList(std::vector<reprise::Example> examples) : examples_(std::move(examples)) {}

  int64_t size() const override { return static_cast<int64_t>(examples_.size()); }
  reprise::Example at(int64_t index) const override {
    return examples_.at(static_cast<size_t>(index));
  }
  int64_t length(int64_t index) const override {
    return static_cast<int64_t>(at(index).sequences[0].ids.size());
  }
  std::string location_name(const reprise::RowLocation& location) const override {
    return "example " + std::to_string(location.line);
  }

 private:
  std::vector<reprise::Example> examples_;
};

class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(std::filesystem::temp_directory_path() /
              ("reprise_example_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};
