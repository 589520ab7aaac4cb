// The folder of a trained model or adapter: weights and configuration, and what lies beside them.
#include "reprise/training/setup/model_card.h"
#include "reprise/training/setup/open_model.h"

#include <reprise/io/file.h>
#include <reprise/model/pretrained.h>

namespace reprise::app {

void save_trained_model(const TrainedModel& trained, const std::filesystem::path& folder) {
  const auto* const sharded = trained.model->sharded_parameters();
  const World& world = sharded == nullptr ? World::single() : sharded->world();
  world.run_on_first("writing the tokenizer into " + folder.string(), [&] {
    create_folder(folder);
    write_model_card(folder, trained.card);
    if (trained.lora) {
      copy_tokenizer(trained.tokenizer, folder);
    }
  });
  if (trained.lora) {
    save_adapter(*trained.model, folder, *trained.lora);
  } else {
    SaveOptions options;
    options.source = trained.source;
    save_model(*trained.model, folder, options);
  }
  if (!trained.chat_template.empty()) {  // what the model was trained with
    world.run_on_first("writing the chat template into " + folder.string(),
                       [&] { write_file(folder / "chat_template.jinja", trained.chat_template); });
  }
}

}  // namespace reprise::app
