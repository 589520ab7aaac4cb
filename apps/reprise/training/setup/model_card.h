// README.md of a trained model: where it comes from and how it was trained, with the front matter
// that the Hugging Face Hub reads.
#pragma once

#include "reprise/training/flags/flags.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace reprise::app {

enum class CardOf : uint8_t { Model, Adapter };

/// The card. It has names of models and files, not their folders, and of the settings only those
/// that are listed as harmless: never a command, a URL or the name of a secret's file. `folder`: of
/// the model that was trained.
std::string model_card(const TrainingFlags& flags, const std::string& folder, CardOf kind);

/// Writes README.md, unless there is one that somebody else wrote.
void write_model_card(const std::filesystem::path& folder, const std::string& card);

}  // namespace reprise::app
