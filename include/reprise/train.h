// Everything that a C++ training program needs: models, data, objectives, the training loops, and
// reports. Link Reprise::train.
//
// A complete program: fine-tune a Hugging Face model on a chat file, with every block checkpointed.
//
//   #include <reprise/memory.h>
//   #include <reprise/train.h>
//
//   int main() {
//     reprise::track_cpu_memory();  // before the first tensor: train() reports bytes
//     const auto loaded = reprise::load_model("smollm2", {.dtype = at::kFloat});
//     loaded.model->enable_checkpointing();
//     const auto tokenizer = reprise::Tokenizer::open("smollm2");
//     const reprise::RowTokenizer rows(tokenizer, {.objective = reprise::Objective::Sft});
//     const auto data = reprise::open_dataset(
//         rows,
//         {.files = {{"chat.jsonl"}}, .tokenizer_key = reprise::tokenizer_key("smollm2")});
//     const auto objective = reprise::make_sft(loaded.model);
//     const auto save = [&](const std::filesystem::path& folder) {
//       reprise::save_model(*loaded.model, folder, {.source = "smollm2"});
//     };
//     reprise::TrainerOptions options;
//     options.output = "out";
//     options.collate.pad_id = tokenizer->special_tokens().pad.value_or(0);
//     reprise::TrainingObserver observer;  // derive from it to see the run
//     reprise::train(
//         {.objective = *objective, .data = data.dataset, .save_model = save}, options, observer);
//     save("out");
//   }
#pragma once

#include <reprise/data/batch.h>
#include <reprise/data/dataset.h>
#include <reprise/data/prompts.h>
#include <reprise/data/rows.h>
#include <reprise/dist/connect.h>
#include <reprise/dist/world.h>
#include <reprise/jinja/chat_template.h>
#include <reprise/model/block_checkpointing.h>
#include <reprise/model/generate.h>
#include <reprise/model/lora.h>
#include <reprise/model/model.h>
#include <reprise/model/pretrained.h>
#include <reprise/optim/optimizer.h>
#include <reprise/optim/schedule.h>
#include <reprise/parallel/shard.h>
#include <reprise/report/event_file.h>
#include <reprise/report/memory_report.h>
#include <reprise/report/metrics_file.h>
#include <reprise/report/progress_text.h>
#include <reprise/report/report.h>
#include <reprise/reward/command.h>
#include <reprise/reward/model.h>
#include <reprise/reward/reward_list.h>
#include <reprise/reward/url.h>
#include <reprise/reward/verifiers.h>
#include <reprise/text/tokenizer.h>
#include <reprise/train/dpo.h>
#include <reprise/train/kd.h>
#include <reprise/train/kto.h>
#include <reprise/train/memory_budget.h>
#include <reprise/train/model_plan.h>
#include <reprise/train/online.h>
#include <reprise/train/precompute.h>
#include <reprise/train/prm.h>
#include <reprise/train/rm.h>
#include <reprise/train/sft.h>
#include <reprise/train/trainer.h>
