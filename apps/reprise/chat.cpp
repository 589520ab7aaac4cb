// `reprise chat`: a conversation in the terminal.
#include "reprise/commands.h"
#include "reprise/error_text.h"
#include "reprise/generation_options.h"
#include "reprise/model_options.h"
#include "reprise/text_stream.h"

#include <c10/util/Exception.h>

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

namespace reprise::app {

namespace {

struct ChatOptions {
  ModelOptions model;
  GenerationOptions generation;
  std::string system;
};

// Prompts and notes go to stderr, so that stdout has only the model's text.
class Conversation {
 public:
  Conversation(const LanguageModel& opened, const ChatOptions& options)
      : opened_(opened), options_(options) {
    reset();
  }

  void reset() {
    messages_ = Json::array();
    if (!options_.system.empty()) {
      messages_.push_back({{"role", "system"}, {"content", options_.system}});
    }
  }

  /// If it throws, the conversation is unchanged.
  void answer(const std::string& line) {
    Json messages = messages_;
    messages.push_back({{"role", "user"}, {"content", line}});
    auto settings = generate_options(options_.generation, opened_);
    const auto prompt = fitting_prompt(messages, settings.max_new_tokens);
    // Each answer has its own random numbers.
    settings.first_prompt = turn_++;
    TextStream stream(opened_.tokenizer, options_.generation.stop);
    std::string text;
    const auto show = [&](const std::string& part) {
      text += part;
      std::cout << part << std::flush;
    };
    settings.on_token = [&](int64_t, int64_t token) { show(stream.push(token)); };
    generate(*opened_.model, {prompt}, settings);
    show(stream.finish());
    std::cout << "\n";
    messages.push_back({{"role", "assistant"}, {"content", std::move(text)}});
    messages_ = std::move(messages);
  }

 private:
  TokenIds encode(const Json& messages) const {
    return opened_.tokenizer->encode_chat(messages, {{"add_generation_prompt", true}}).ids;
  }

  // Drops the oldest turns, but not the system message, until an answer fits.
  TokenIds fitting_prompt(Json& messages, int64_t& max_new_tokens) const {
    const int64_t room = opened_.model->config().max_positions;
    // A large limit is rarely reached and must not push out a conversation that fits.
    const int64_t reserve = std::min(max_new_tokens, room / 4);
    const auto first = static_cast<std::ptrdiff_t>(options_.system.empty() ? 0 : 1);
    constexpr std::ptrdiff_t kTurn = 2;
    auto ids = encode(messages);
    bool has_forgotten = false;
    while (static_cast<int64_t>(ids.size()) + reserve > room &&
           std::ssize(messages) > first + kTurn) {
      messages.erase(messages.begin() + first, messages.begin() + first + kTurn);
      ids = encode(messages);
      has_forgotten = true;
    }
    if (has_forgotten) {
      std::cerr << "(the beginning of the conversation no longer fits and is left out)\n";
    }
    const int64_t left = room - static_cast<int64_t>(ids.size());
    TORCH_CHECK(left > 0, "this message is too long: the model takes ", room, " tokens");
    max_new_tokens = std::min(max_new_tokens, left);
    return ids;
  }

  const LanguageModel& opened_;
  const ChatOptions& options_;
  Json messages_;
  int64_t turn_ = 0;
};

void run_chat(const ChatOptions& options) {
  const auto opened = open_language_model(options.model);
  const auto autocast = autocast_scope(opened);
  TORCH_CHECK(opened.tokenizer != nullptr && opened.tokenizer->chat_template() != nullptr,
              options.model.model.string(),
              ": has no chat template; use `reprise generate`");
  const bool is_terminal = isatty(STDIN_FILENO) != 0;
  if (is_terminal) {
    std::cerr << "/reset forgets the conversation, /exit or Ctrl-D ends it.\n";
  }
  Conversation conversation(opened, options);
  std::string line;
  while (std::cerr << (is_terminal ? "> " : ""), std::getline(std::cin, line)) {
    if (line == "/exit") {
      return;
    }
    if (line == "/reset") {
      conversation.reset();
    } else if (line.find_first_not_of(" \t\r") != std::string::npos) {
      try {
        conversation.answer(line);
      } catch (const std::exception& error) {
        if (!is_terminal) {
          throw;
        }
        std::cerr << "reprise: " << shown_error(error) << "\n";
      }
    }
  }
  if (is_terminal) {
    std::cerr << "\n";
  }
}

}  // namespace

void add_chat(CLI::App& app) {
  auto options = std::make_shared<ChatOptions>();
  options->generation.max_new_tokens = 512;
  options->generation.sampling.temperature = 0.7;
  auto* command = app.add_subcommand("chat", "Chat with a model in the terminal.");
  add_model_options(*command, options->model);
  add_precision_options(*command, options->model);
  command->add_option("--system", options->system, "System message");
  add_generation_options(*command, options->generation);
  command->callback([options, command] {
    check_generation_effects(*command, options->generation);
    run_chat(*options);
  });
}

}  // namespace reprise::app
