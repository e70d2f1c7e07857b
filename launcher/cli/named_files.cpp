#include "cli/named_files.hpp"

#include "base/is_one_of.hpp"
#include "cli/program.hpp"
#include "cli/shell_text.hpp"
#include "cli/started_commands.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

namespace hvdrun::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::span<const std::string>;

// Programs that start the next word if it is no option, in the same folder and with the same files.
constexpr std::array<std::string_view, 8> kTransparent{"nice",   "nohup",  "time",   "setsid",
                                                       "ionice", "strace", "ltrace", "valgrind"};

constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";

bool is_plain(std::string_view word) {
  return word.find_first_not_of(kPlain) == std::string_view::npos;
}

bool is_option(std::string_view word) {
  return word.starts_with('-');
}

// Returns whether the name is that of Python: python, python3 or python3.12.
bool is_python(std::string_view name) {
  constexpr std::string_view kPython = "python";
  return name.starts_with(kPython) &&
         name.substr(kPython.size()).find_first_not_of("0123456789.") == std::string_view::npos;
}

// Returns whether the word is an option without a value, of several letters perhaps: "-u", "-eux".
bool is_flag(std::string_view word, std::string_view letters) {
  return word.size() > 1 && is_option(word) &&
         word.substr(1).find_first_not_of(letters) == std::string_view::npos;
}

// Returns the script that the words run for certain; nullptr if there is none.
const std::string* script_of(Words words) {
  const auto name = base_name(words.front());
  const bool is_of_python = is_python(name);
  if (!is_of_python && (!is_shell(name) || name == "busybox")) return nullptr;
  std::size_t at = 1;
  while (at < words.size() && is_flag(words[at], is_of_python ? "uBOsSEIqvbd" : "euxv")) ++at;
  const bool is_there = at < words.size() && !words[at].empty() && !is_option(words[at]) &&
                        words[at].find('$') == std::string::npos;
  return is_there ? &words[at] : nullptr;
}

// Returns how many words come before the program that the words start, 0 if that is not certain.
std::size_t words_before_program(Words words) {
  const auto name = base_name(words.front());
  std::size_t at = 1;
  if (name == "env")
    while (at < words.size() && is_assignment(words[at]) && !words[at].starts_with("PATH=")) ++at;
  else if (name == "nice" && words.size() > 3 && words[1] == "-n")
    at = 3;
  else if (!is_one_of(name, kTransparent))
    return 0;
  return at < words.size() && is_plain(words[at]) && !is_option(words[at]) ? at : 0;
}

// Returns the name of a file in the script's folder that is like its own; an empty text if there is
// none.
std::string similar_file(const fs::path& script) {
  const auto name = script.filename().string();
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(script.parent_path(), error), end; !error && at != end;
       at.increment(error))
    if (at->path().extension() == script.extension() && at->path().filename() != name)
      names.push_back(at->path().filename().string());
  std::ranges::sort(names);
  return std::string(nearest_name(name, {names.begin(), names.end()}));
}

// Returns whether a folder of PATH has a file of that name, which bash takes for its script.
bool is_in_path(const std::string& name, const Environment& environment, const fs::path& folder) {
  if (name.find('/') != std::string::npos) return false;
  const auto found = find_program(name, environment, folder);
  return found || found.error().exit_code != kExitNotFound;
}

std::optional<MissingFile> look_for_script(const std::string& script,
                                           const Environment& environment, const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / script, error) || error || is_in_path(script, environment, folder))
    return std::nullopt;
  MissingFile missing{script, true, {}, {quote(script) + " does not exist", kExitNotFound}};
  if (const auto similar = similar_file(folder / script); !similar.empty()) {
    missing.similar = (fs::path(script).parent_path() / similar).string();
    missing.error.message += "; did you mean " + missing.similar + "?";
  }
  return missing;
}

std::optional<MissingFile> look_for_program(const std::string& name, const Environment& environment,
                                            const fs::path& folder) {
  auto found = find_program(name, environment, folder);
  if (found) return std::nullopt;
  return MissingFile{name, false, {}, std::move(found).error()};
}

}  // namespace

std::optional<MissingFile> find_missing_file(const std::vector<std::string>& command,
                                             const JobSpec& spec, const Environment& environment,
                                             const fs::path& folder) {
  const bool changes_path = std::ranges::any_of(
      spec.environment, [](const auto& change) { return change.name == "PATH"; });
  if (changes_path) return std::nullopt;
  if (!spec.wrap.command.empty()) {
    const auto commands = commands_of(spec.wrap.command);
    if (commands.size() != 1 || commands.front().words.empty()) return std::nullopt;
    const auto& name = commands.front().words.front();
    return is_plain(name) ? look_for_program(name, environment, folder) : std::nullopt;
  }
  Words words(command);
  for (std::size_t before = 0; (before = words_before_program(words)) > 0;) {
    words = words.subspan(before);
    if (auto missing = look_for_program(words.front(), environment, folder)) return missing;
  }
  const auto* const script = script_of(words);
  return script == nullptr ? std::nullopt : look_for_script(*script, environment, folder);
}

}  // namespace hvdrun::cli
