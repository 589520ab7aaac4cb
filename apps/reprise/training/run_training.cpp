// The order of a run: look at everything that can be wrong, train, save, report.
#include "reprise/training/run_training.h"

#include "reprise/training/make_objective.h"
#include "reprise/training/open_data.h"
#include "reprise/training/open_model.h"
#include "reprise/training/trainer_options.h"
#include "reprise/training/training_run.h"

#include <reprise/io/safetensors.h>
#include <reprise/train/trainer.h>

#include <filesystem>

namespace reprise::app {

namespace fs = std::filesystem;

void run_training(const TrainingFlags& flags, const Json& configuration, const RunWorld& world) {
  TrainingRun run(flags, configuration, world);
  const TrainedModel trained = open_trained_model(flags, keeps_reference(flags), world, run.line());
  const auto data = world.first_then_others("reading " + flags.data, [&] {
    return open_training_data(flags, trained.model->config(), run.line());
  });
  world.check_same_data(flags);
  const auto objective = make_objective(flags, trained, data, world, run.line());
  auto options = trainer_options(flags, configuration, data.train_key, world.world());
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
        objective->load(SafetensorsFile(summary.best_checkpoint / "objective.safetensors"));
      }
      run.line().print("the best model is that of " + summary.best_checkpoint.string());
    }
    job.save_model(flags.output_dir);
    world.world().first_alone("completing the model",
                              [&] { objective->complete(flags.output_dir); });
  }
  run.finish(summary, *trained.model);
}

}  // namespace reprise::app
