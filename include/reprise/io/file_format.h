// Names files of other programs that are given where we read ours, with a command that converts
// them: a parser would only say that the first byte is wrong.
#pragma once

#include <reprise/export.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace reprise {

/// For a text that is not UTF-8 (UTF-16, UTF-32) or is compressed otherwise than by gzip: "this is
/// UTF-16; convert it with: …". By its first bytes; empty: it may be text. `path` is for the
/// command.
REPRISE_API std::string foreign_text(std::string_view beginning, const std::filesystem::path& path);

/// The same for a file of rows: also Parquet, Arrow, CSV, spreadsheets, plain text, weights.
REPRISE_API std::string foreign_rows(std::string_view beginning, const std::filesystem::path& path);

/// Throws unless `folder` may be a model: for a file, above all a GGUF file, and for a folder that
/// has only such a file. Nothing is thrown for what does not exist.
REPRISE_API void refuse_foreign_model(const std::filesystem::path& folder);

}  // namespace reprise
