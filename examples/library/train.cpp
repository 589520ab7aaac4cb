// Training from C++: files to a dataset, a model with checkpointed blocks, train(), a saved model.
// With a model of your own, replace the first part by load_model("folder") and
// Tokenizer::open("folder").
#include "tiny.h"

#include <reprise/io/file.h>

#include <iostream>

namespace {

/// A file of rows, as any training command takes it: {"prompt": …, "completion": …} per line.
void write_rows(const std::filesystem::path& file) {
  std::string rows;
  for (int i = 0; i < 64; ++i) {
    rows += R"({"prompt": "Count on: )" + std::to_string(i) + R"( ", "completion": ")" +
            std::to_string(i + 1) + "\"}\n";
  }
  reprise::write_file(file, rows);
}

}  // namespace

int main() {
  reprise::track_cpu_memory();  // before the first tensor: train() reports bytes
  const TemporaryFolder folder;
  write_rows(folder.path() / "rows.jsonl");

  // A tokenizer for these rows, and a model for its vocabulary.
  reprise::write_file(folder.path() / "tokenizer.json",
                      reprise::train_bpe("Count on: 0 1 2 3 4 5 6 7 8 9",
                                         {.vocabulary = 260, .special_tokens = {"<end>"}}));
  reprise::write_json(folder.path() / "tokenizer_config.json",
                      {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"eos_token", "<end>"}});
  const auto tokenizer = reprise::Tokenizer::open(folder.path());
  const reprise::Json config = {{"model_type", "llama"},
                                {"vocab_size", tokenizer->size()},
                                {"hidden_size", 64},
                                {"intermediate_size", 176},
                                {"num_hidden_layers", 2},
                                {"num_attention_heads", 4},
                                {"max_position_embeddings", 64}};
  const auto model = std::make_shared<reprise::Model>(
      reprise::ModelConfig::from_json(config, "the example"), reprise::HeadKind::CausalLm);
  model->initialize(/*seed=*/1);
  model->enable_checkpointing();  // every block; train() checks that it has an effect

  const reprise::RowTokenizer rows(tokenizer, {.objective = reprise::Objective::Sft});
  const auto data = reprise::open_dataset(rows,
                                          {.files = {{folder.path() / "rows.jsonl"}},
                                           .cache = folder.path() / "cache",
                                           .tokenizer_key = reprise::tokenizer_key(folder.path())});

  const auto objective = reprise::make_sft(model);
  const auto save = [&](const std::filesystem::path& where) { reprise::save_model(*model, where); };
  reprise::TrainerOptions options;
  options.output = folder.path() / "output";
  options.epochs = 3;
  options.learning_rate = 2e-3;
  options.max_grad_norm = 1;
  reprise::TrainingObserver observer;  // says nothing; see observer.cpp
  const auto summary = reprise::train(
      {.objective = *objective, .data = data.dataset, .save_model = save}, options, observer);
  save(folder.path() / "final");

  const auto steps = reprise::MetricsFile::read(options.output / "metrics.jsonl");
  const auto loss = [&](size_t step) { return steps.at(step)["loss"].get<double>(); };
  std::cout << summary.progress.step << " steps, loss " << loss(0) << " -> "
            << loss(steps.size() - 1) << ", checkpointed blocks " << model->checkpointed_blocks()
            << "\n";
  return loss(steps.size() - 1) < loss(0) ? 0 : 1;
}
