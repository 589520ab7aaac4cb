// Data of your own: a Dataset is random access to examples. This one has no file behind it; each
// example is made when it is asked for.
#include "tiny.h"

#include <iostream>

namespace {

/// Sums of two digits: "3+4=" is the prompt, "7;" what is learnt.
class Sums final : public reprise::Dataset {
 public:
  int64_t size() const override { return 100; }

  // Must return the same example for the same index, always: a resumed run asks again.
  reprise::Example at(int64_t index) const override {
    const int64_t a = index / 10, b = index % 10;
    return byte_example(std::to_string(a) + "+" + std::to_string(b) + "=",
                        std::to_string(a + b) + ";");
  }

  // Asked for many indices at a time (to form batches, to plan memory), so it should be cheap.
  int64_t length(int64_t index) const override { return index / 10 + index % 10 < 10 ? 6 : 7; }

  // How error messages call a row.
  std::string location_name(const reprise::RowLocation& /*location*/) const override {
    return "a sum";
  }
};

}  // namespace

int main() {
  reprise::track_cpu_memory();  // before the first tensor: train() reports bytes
  const TemporaryFolder folder;
  const auto model = tiny_model();
  model->enable_checkpointing();
  const auto objective = reprise::make_sft(model);
  reprise::TrainerOptions options;
  options.output = folder.path();
  options.batch_size = 20;
  options.epochs = 30;
  options.learning_rate = 3e-3;
  options.save_steps = 0;  // no checkpoints
  reprise::TrainingObserver observer;
  const auto data = std::make_shared<Sums>();
  reprise::train(
      {.objective = *objective, .data = data, .save_model = [](const std::filesystem::path&) {}},
      options,
      observer);

  const auto prompt = data->at(34).sequences[0];  // 3+4=
  const auto answer = reprise::generate(*model,
                                        {{prompt.ids.begin(), prompt.ids.begin() + prompt.prompt}},
                                        {.sampling = {.temperature = 0}, .max_new_tokens = 1});
  std::cout << "3+4=" << static_cast<char>(answer.at(0).ids.at(0)) << "\n";
  return answer.at(0).ids.at(0) == '7' ? 0 : 1;
}
