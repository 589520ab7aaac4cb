// Each call of score() is one exchange with the process. If it fails, the process is restarted and
// asked once more; two failures become one error message.
#include <reprise/reward/command.h>

#include "reward/child_process.h"
#include "reward/reply_lines.h"
#include "reward/request_json.h"

#include <c10/util/Exception.h>

#include <optional>
#include <utility>

namespace reprise {
namespace {

using reward::ChildProcess;
using reward::ReplyLines;

class CommandReward final : public RewardSource {
 public:
  explicit CommandReward(CommandRewardOptions options) : options_(std::move(options)) {
    TORCH_CHECK(!options_.command.empty() && options_.timeout.count() > 0,
                "[reward] expected a command, and a time-out above 0");
    TORCH_CHECK(options_.command.find('\0') == std::string::npos,
                "[reward] a command cannot contain a zero byte");
  }

  std::string name() const override { return options_.name; }

  std::vector<double> score(std::span<const RewardRequest> requests) override {
    if (requests.empty()) {
      return {};
    }
    std::string first_failure;
    while (true) {
      try {
        ReplyLines::Rewards rewards = exchange(requests);
        check_finite(rewards, requests);
        next_id_ += static_cast<int64_t>(requests.size());
        return std::move(rewards.values);
      } catch (const Failure& failure) {
        process_.reset();
        TORCH_CHECK(first_failure.empty(),
                    described(),
                    " failed, was started again and failed again. First time: ",
                    first_failure,
                    ". Second time: ",
                    failure.text);
        first_failure = failure.text;
      }
    }
  }

 private:
  /// The failure of one attempt; another may follow.
  struct Failure {
    std::string text;
  };

  std::string described() const {
    return "[reward] " + options_.name + ": the command " + reward::quoted_start(options_.command);
  }

  ReplyLines::Rewards exchange(std::span<const RewardRequest> requests) {
    ReplyLines lines(requests.size(), next_id_);
    try {
      if (process_) {
        // Output that a running process left over would be taken for replies.
        const std::string before = process_->available_output();
        TORCH_CHECK(
            before.empty(), "it printed ", reward::quoted_start(before), " without being asked");
      } else {
        process_.emplace(options_.command);
      }
      const auto end = process_->exchange(
          text_of(requests),
          [&](std::string_view printed) {
            lines.add(printed);
            return lines.is_complete();
          },
          ChildProcess::Clock::now() + options_.timeout);
      TORCH_CHECK(end == ChildProcess::End::Done, what_happened(end, lines));
      return lines.rewards();
    } catch (const c10::Error& error) {
      throw Failure{error.what_without_backtrace() + describe_end()};
    }
  }

  std::string text_of(std::span<const RewardRequest> requests) const {
    std::string text;
    for (size_t i = 0; i < requests.size(); ++i) {
      const int64_t id = next_id_ + static_cast<int64_t>(i);
      text += reward::one_line(reward::request_json(requests[i], id)) + "\n";
    }
    return text;
  }

  std::string what_happened(ChildProcess::End end, const ReplyLines& lines) const {
    const std::string answered =
        std::to_string(lines.size()) + " of " + std::to_string(lines.requested()) + " lines";
    std::string text = end == ChildProcess::End::TimeOut
                           ? "it printed " + answered + " in " +
                                 std::to_string(options_.timeout.count()) +
                                 " ms, the time-out (`reward_timeout`, which also counts what the "
                                 "process needs to start)"
                           : "it closed its output after " + answered;
    if (!lines.last().empty()) {
      text += ", the last being " + reward::quoted_start(lines.last());
    }
    return text;
  }

  /// How the process ended, and the end of its standard error.
  std::string describe_end() {
    if (!process_) {
      return "";
    }
    std::string text = " (" + process_->end();
    const std::string& errors = process_->error_tail();
    return text + (errors.empty() ? ", nothing on standard error)"
                                  : ", standard error ends with: " + trimmed_tail(errors) + ")");
  }

  static std::string trimmed_tail(std::string text) {
    text.resize(text.find_last_not_of(" \t\r\n") + 1);  // npos + 1 is 0
    return text;
  }

  void check_finite(const ReplyLines::Rewards& rewards, std::span<const RewardRequest> requests) {
    if (rewards.non_finite.empty()) {
      return;
    }
    const size_t request = rewards.non_finite.front();
    const Json* row = requests[request].row;
    const std::string words = describe_end();
    process_.reset();
    TORCH_CHECK(false,
                described(),
                " answered NaN or infinity for ",
                rewards.non_finite.size(),
                " of ",
                requests.size(),
                " completions; print null for one that cannot be scored. The first is number ",
                request,
                " of its batch, ",
                reward::quoted_start(requests[request].completion),
                ", of the row ",
                row == nullptr ? "none" : reward::quoted_start(reward::one_line(*row)),
                words);
  }

  CommandRewardOptions options_;
  std::optional<ChildProcess> process_;
  int64_t next_id_ = 0;  // ids are not reused, so a late reply is recognised
};

}  // namespace

std::unique_ptr<RewardSource> make_command_reward(CommandRewardOptions options) {
  return std::make_unique<CommandReward>(std::move(options));
}

}  // namespace reprise
