// `reprise init`: makes a small random model and a tokenizer trained on a text, so that every
// command can be tried without a download.
#include "reprise/commands.h"
#include "reprise/model_options.h"

#include <reprise/io/atomic_folder.h>
#include <reprise/io/file.h>
#include <reprise/io/file_format.h>
#include <reprise/io/json.h>
#include <reprise/model/pretrained.h>
#include <reprise/text/tokenizer.h>

#include <c10/util/Exception.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

namespace reprise::app {

namespace {

struct InitOptions {
  std::filesystem::path config;
  std::filesystem::path text;
  std::filesystem::path output;
  int64_t vocabulary = 512;
  uint64_t seed = 0;
  std::string dtype = "float32";
};

constexpr const char* kSmallLlama = R"({
  "architectures": ["LlamaForCausalLM"],
  "model_type": "llama",
  "hidden_size": 64,
  "intermediate_size": 176,
  "num_hidden_layers": 4,
  "num_attention_heads": 4,
  "num_key_value_heads": 2,
  "max_position_embeddings": 2048,
  "hidden_act": "silu",
  "rms_norm_eps": 1e-05,
  "rope_theta": 10000.0,
  "attention_bias": false,
  "initializer_range": 0.02,
  "tie_word_embeddings": true,
  "vocab_size": 512
})";

// The special tokens of ChatML, and the end of a document.
constexpr const char* kEndOfText = "<|endoftext|>";
constexpr const char* kBeginTurn = "<|im_start|>";
constexpr const char* kEndTurn = "<|im_end|>";
constexpr const char* kChatTemplate =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\n' }}"
    "{% else %}{{ message['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

Json tokenizer_config(int64_t max_length) {
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"bos_token", nullptr},
          {"eos_token", kEndTurn},
          {"pad_token", kEndOfText},
          {"unk_token", nullptr},
          {"clean_up_tokenization_spaces", false},
          {"model_max_length", max_length},
          {"chat_template", kChatTemplate}};
}

Json read_config(const std::filesystem::path& file) {
  Json json = file.empty() ? parse_json(kSmallLlama, "built-in config") : read_json(file);
  TORCH_CHECK(json.is_object(),
              file.string(),
              ": expected a config.json: an object, found ",
              kind_of(json));
  return json;
}

// Sets the sizes and ids that follow from the tokenizer.
void adapt_to(const Tokenizer& tokenizer, Json& config) {
  config["vocab_size"] = tokenizer.size();
  if (config.contains("padded_vocab_size")) {
    config["padded_vocab_size"] = tokenizer.size();
  }
  config["bos_token_id"] = nullptr;
  config["eos_token_id"] = tokenizer.id_of(kEndTurn).value();
  config["pad_token_id"] = tokenizer.id_of(kEndOfText).value();
}

std::string text_of(const std::filesystem::path& path) {
  std::string text = read_file(path);
  const auto foreign = foreign_text(text, path);
  TORCH_CHECK(foreign.empty(), path.string(), ": ", foreign);
  return text;
}

void run_init(const InitOptions& options) {
  AtomicFolder output(options.output);
  Json config = read_config(options.config);
  const auto trained = train_bpe(
      text_of(options.text),
      {.vocabulary = options.vocabulary, .special_tokens = {kEndOfText, kBeginTurn, kEndTurn}});
  const auto tokenizer = Tokenizer::from_json(trained, "the trained tokenizer");
  adapt_to(*tokenizer, config);
  const std::string config_name =
      options.config.empty() ? "built-in config" : options.config.string();
  Model model(ModelConfig::from_json(config, config_name),
              HeadKind::CausalLm,
              *chosen_dtype(options.dtype));
  print_warnings(model.config().warnings);
  model.initialize(options.seed);
  save_model(model, output.path());
  write_file(output.path() / "tokenizer.json", trained);
  write_json(output.path() / "tokenizer_config.json",
             tokenizer_config(model.config().max_positions));
  write_json(output.path() / "generation_config.json",
             {{"eos_token_id", {config["eos_token_id"], config["pad_token_id"]}},
              {"pad_token_id", config["pad_token_id"]}});
  output.commit();
  std::cerr << options.output.string() << ": a " << model.config().family << " with "
            << tokenizer->size() << " tokens\n";
}

}  // namespace

void add_init(CLI::App& app) {
  auto options = std::make_shared<InitOptions>();
  auto* command = app.add_subcommand(
      "init", "Make a model with random weights and a tokenizer trained on a text file.");
  command
      ->add_option(
          "--config", options->config, "config.json of the model; by default a Llama with 4 layers")
      ->type_name("FILE");
  command->add_option("--text", options->text, "Text to train the tokenizer on")
      ->required()
      ->type_name("FILE");
  command->add_option("--output", options->output, "Output folder, new or empty")
      ->required()
      ->type_name("DIR");
  command->add_option("--vocabulary", options->vocabulary, "Largest vocabulary of the tokenizer")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{260}, int64_t{1} << 20));
  command->add_option("--seed", options->seed, "Random seed of the weights")->capture_default_str();
  add_dtype_option(*command, options->dtype, "Data type of the weights");
  command->get_option("--dtype")->capture_default_str();
  command->callback([options] { run_init(*options); });
}

}  // namespace reprise::app
