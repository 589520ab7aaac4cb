// Content decides before the name: a .csv file that begins with '{' is JSON Lines. Commands need
// nothing but Python with what people have who have such files (pandas, datasets), or a shell.
#include <reprise/io/file_format.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <system_error>
#include <utility>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

/// As a word of a shell command and of Python; FILE if it would have to be quoted.
std::string word(const fs::path& path) {
  const std::string text = path.string();
  const bool is_plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '/' || c == '+';
  });
  return is_plain && !text.empty() && text[0] != '-' ? text : "FILE";
}

std::string with_extension(fs::path path, const char* extension) {
  return word(path.replace_extension(extension));
}

std::string is_a(const std::string& what, const std::string& command) {
  return "this is " + what + "; convert it with: " + command;
}

std::string pandas(const char* read, const fs::path& path) {
  return std::string("python3 -c \"import pandas; pandas.read_") + read + "('" + word(path) +
         "').to_json('" + with_extension(path, ".jsonl") + "', orient='records', lines=True)\"";
}

/// With Python's own modules alone; `rows` is an expression for dictionaries.
std::string python(const std::string& modules, const std::string& rows, const fs::path& path) {
  const std::string zipped = path.extension() == ".gz" ? ", gzip" : "";
  return "python3 -c \"import " + modules + zipped + "; [print(json.dumps(row)) for row in " +
         rows + "]\" > " + with_extension(path, ".jsonl");
}

std::string opened(const fs::path& path) {
  return path.extension() == ".gz" ? "gzip.open('" + word(path) + "', 'rt')"
                                   : "open('" + word(path) + "')";
}

std::string extension_of(const fs::path& path) {
  const bool is_zipped = path.extension() == ".gz";
  std::string extension = (is_zipped ? path.stem() : path).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return extension;
}

bool is_json(std::string_view beginning) {
  const size_t first = beginning.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return first == std::string_view::npos || beginning[first] == '{' || beginning[first] == '[';
}

std::string import_command(const fs::path& file) {
  return is_a("a GGUF file", "reprise import " + word(file) + " " + with_extension(file, ""));
}

std::string beginning_of(const fs::path& path) {
  std::array<char, 16> bytes{};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), bytes.size());
  return {bytes.data(), static_cast<size_t>(file.gcount())};
}

}  // namespace

std::string foreign_text(std::string_view beginning, const fs::path& path) {
  const std::string file = word(path);
  const std::pair<std::string_view, std::string> kinds[] = {{"\xFF\xFE\0\0"sv, "UTF-32"},
                                                            {"\0\0\xFE\xFF"sv, "UTF-32"},
                                                            {"\xFF\xFE"sv, "UTF-16"},
                                                            {"\xFE\xFF"sv, "UTF-16"},
                                                            {"{\0"sv, "UTF-16LE"},
                                                            {"\0{"sv, "UTF-16BE"},
                                                            {"[\0"sv, "UTF-16LE"},
                                                            {"\0["sv, "UTF-16BE"}};
  for (const auto& [mark, name] : kinds) {
    if (beginning.starts_with(mark)) {
      std::string command = "iconv -f " + name;
      command += " -t UTF-8 " + file;
      command += " > " + file + ".utf8";
      return is_a("text in " + name, command);
    }
  }
  const std::pair<std::string_view, std::pair<const char*, const char*>> packed[] = {
      {"\x28\xB5\x2F\xFD"sv, {"compressed by zstd", "zstd -d "}},
      {"BZh"sv, {"compressed by bzip2", "bunzip2 -k "}},
      {"\xFD"
       "7zXZ"sv,
       {"compressed by xz", "xz -dk "}},
      {"7z\xBC\xAF"sv, {"a 7z archive", "7z x "}},
      {"PK\x03\x04"sv, {"a zip archive", "unzip "}}};
  for (const auto& [mark, kind] : packed) {
    if (beginning.starts_with(mark)) {
      return is_a(kind.first, kind.second + file);
    }
  }
  return "";
}

std::string foreign_rows(std::string_view beginning, const fs::path& path) {
  const std::string file = word(path), extension = extension_of(path);
  if (beginning.starts_with("PAR1")) {
    return is_a("a Parquet file", pandas("parquet", path));
  }
  if (beginning.starts_with("ARROW1") || beginning.starts_with("\xFF\xFF\xFF\xFF")) {
    return is_a("an Arrow file",
                "python3 -c \"import datasets; datasets.Dataset.from_file('" + file +
                    "').to_json('" + with_extension(path, ".jsonl") + "')\"");
  }
  if (beginning.starts_with("PK\x03\x04") && extension == ".xlsx") {
    return is_a("a spreadsheet", pandas("excel", path));
  }
  if (beginning.starts_with("GGUF") || beginning.substr(0, 16).find("\0{\""sv) != beginning.npos ||
      extension == ".safetensors") {
    return "this file holds weights of a model; expected rows in JSON Lines";
  }
  std::string text = foreign_text(beginning, path);
  if (!text.empty() || is_json(beginning)) {
    return text;
  }
  if (extension == ".csv" || extension == ".tsv") {
    const std::string tabs = extension == ".tsv" ? ", delimiter='\\t'" : "";
    return is_a(extension == ".csv" ? "a CSV file" : "a TSV file",
                python("csv, json", "csv.DictReader(" + opened(path) + tabs + ")", path));
  }
  if (extension == ".txt" || extension == ".md") {
    return is_a("plain text",
                python("json", "({'text': line.strip()} for line in " + opened(path) + ")", path));
  }
  return "";
}

void refuse_foreign_model(const fs::path& folder) {
  std::error_code ignored;
  const bool is_gguf = beginning_of(folder).starts_with("GGUF") ||
                       (folder.extension() == ".gguf" && fs::is_regular_file(folder, ignored));
  TORCH_CHECK(!is_gguf, "[load] ", folder.string(), ": ", import_command(folder));
  TORCH_CHECK(!fs::exists(folder, ignored) || fs::is_directory(folder, ignored),
              "[load] ",
              folder.string(),
              ": is a file, not a folder. A model is a folder with config.json and safetensors "
              "files");
  if (fs::exists(folder / "config.json", ignored)) {
    return;
  }
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    TORCH_CHECK(entry.path().extension() != ".gguf",
                "[load] ",
                entry.path().string(),
                ": ",
                import_command(entry.path()));
  }
}

}  // namespace reprise
