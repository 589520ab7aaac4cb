// Secrets: read from the environment or from files, never from a command line, which every user of
// a machine can read.
#pragma once

#include <reprise/export.h>

#include <optional>
#include <string>

namespace reprise {

/// The first line of a file that only its owner may read or write; at most 4096 bytes. Throws, with
/// `name` for what it is, if other users may read it too.
REPRISE_API std::string read_secret_file(const std::string& file, const std::string& name);

/// REPRISE_WORLD_SECRET, or what is in the file that REPRISE_WORLD_SECRET_FILE names: what the
/// processes of a world prove to each other. std::nullopt if neither is set.
REPRISE_API std::optional<std::string> world_secret_from_environment();

/// A new one, for a program that starts the processes of a world and hands it to them.
REPRISE_API std::string new_world_secret();

}  // namespace reprise
