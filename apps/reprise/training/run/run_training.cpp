// Checks all inputs first, expensive ones last; then trains, saves and reports.
#include "reprise/training/run/run_training.h"

#include "reprise/training/options/trainer_options.h"
#include "reprise/training/run/training_run.h"
#include "reprise/training/setup/make_objective.h"
#include "reprise/training/setup/open_data.h"
#include "reprise/training/setup/open_model.h"

#include <reprise/io/tensor_file.h>
#include <reprise/train/trainer.h>

#include <filesystem>

namespace reprise::app {

namespace fs = std::filesystem;

void run_training(const TrainingFlags& flags, const Json& configuration, const RunWorld& world) {
  TrainingRun run(flags, configuration, world);
  const auto config = ModelConfig::read(flags.model, trained_part(flags));
  run.line().phase("tokenising " + flags.data);
  const auto data = world.first_then_others(
      "reading " + flags.data, [&] { return open_training_data(flags, config, run.line()); });
  world.check_same_data(flags);
  check_positions(flags, data.longest, run.line());
  run.record({{"truncation", data.truncation}, {"eval_truncation", data.evaluation_truncation}});
  run.line().phase("loading " + flags.model);
  const TrainedModel trained = open_trained_model(flags, keeps_reference(flags), world, run.line());
  run.line().phase("preparing " + to_string(flags.objective));
  const auto objective = make_objective(flags, trained, data, world, run.line());
  auto options =
      trainer_options(flags, run.recorded_configuration(), data.train_key, world.world());
  options.collate = data.collate;
  TrainingObserver& observer = run.begin(*trained.model, data.train_key);
  const TrainingJob job{*objective,
                        data.train,
                        data.evaluation,
                        [&](const fs::path& folder) { save_trained_model(trained, folder); },
                        run.resume_from()};
  const auto summary = train(job, options, observer, world.world());

  if (summary.end != TrainingEnd::Stopped) {
    if (run.takes_best(summary)) {
      load_trained(*trained.model, summary.best_checkpoint);
      if (!objective->state().empty()) {
        objective->load(TensorFile(summary.best_checkpoint / "objective.safetensors"));
      }
      run.line().print("using the best model, of " + summary.best_checkpoint.string());
    }
    job.save_model(flags.output_dir);
    world.world().run_on_first("completing the model",
                               [&] { objective->save_extras(flags.output_dir); });
  }
  run.finish(summary, *trained.model);
}

}  // namespace reprise::app
