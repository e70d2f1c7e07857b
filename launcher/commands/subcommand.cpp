#include "commands/subcommand.hpp"

#include "base/severity.hpp"
#include "cli/option_sets.hpp"
#include "cli/program.hpp"
#include "commands/other_tools.hpp"
#include "common/text.hpp"
#include "output/own_line.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::size_t kShortestGuess = 4;  // "-a" is near to any other letter

// Returns the long option that a short one may mean, such as --rank for -r: the only one with that
// letter. Returns "" if there is none, or a choice.
std::string_view only_long_one(std::string_view word, const std::vector<std::string_view>& known) {
  if (word.size() < 2 || word[1] == '-') return {};
  std::string_view only;
  for (const auto option : known) {
    if (!option.starts_with("--") || option[2] != word[1]) continue;
    if (!only.empty()) return {};
    only = option;
  }
  return only;
}

Error unknown(std::string_view command, const std::string& word,
              const std::vector<std::string>& args, const std::vector<CommandFlag>& flags,
              const std::vector<CommandValue>& values) {
  if (const auto other = option_of_other_tool(command, word, args))
    return fail(
        fmt::format("{} is an option of {}: {}", other->option, other->tool, other->instead),
        kExitUsage);
  if (cli::find_option_by_spelling(word, cli::all_options()) != nullptr)
    return fail(word + " is an option of a job's start, and not of " + std::string(command),
                kExitUsage);
  std::vector<std::string_view> known;
  for (const auto& value : values) known.push_back(value.spelling);
  for (const auto& flag : flags) known.push_back(flag.spelling);
  const auto nearest =
      word.size() < kShortestGuess ? only_long_one(word, known) : nearest_name(word, known);
  const std::string whose(command);
  if (const auto other = other_command_with(word, command); other && nearest.empty())
    return fail(word + " is an option of " + std::string(*other) + ", and not of " + whose,
                kExitUsage);
  return fail("unknown option " + quote_if_needed(word) + " of " + whose +
                  (nearest.empty() ? "; " + whose + " --help lists all"
                                   : "; did you mean " + std::string(nearest) + "?"),
              kExitUsage);
}

// Returns the option with a value that the word is or begins with; its value, if the word has it,
// is in `attached`.
const CommandValue* find_value(const std::string& word, const std::vector<CommandValue>& values,
                               std::optional<std::string>& attached) {
  for (const auto& value : values) {
    if (word == value.spelling) return &value;
    if (!word.starts_with(value.spelling)) continue;
    const bool is_long = value.spelling.starts_with("--");
    if (is_long && word[value.spelling.size()] != '=') continue;
    attached = word.substr(value.spelling.size() + (is_long ? 1 : 0));
    return &value;
  }
  return nullptr;
}

}  // namespace

std::string hvdrun_name(const Environment& environment) {
  namespace fs = std::filesystem;
  constexpr auto kName = "hvdrun";
  std::error_code error;
  const auto self = fs::read_symlink("/proc/self/exe", error);
  if (error) return kName;
  const auto found = cli::find_program(kName, environment, {});
  if (!found || !fs::equivalent(*found, self, error) || error) return self.string();
  const auto folder = found->parent_path();
  const bool is_everywhere = folder == "/usr/bin" || folder == "/bin" || folder == "/usr/local/bin";
  return is_everywhere ? kName : self.string();
}

Result<std::vector<std::string>> take_flags(std::string_view command,
                                            const std::vector<std::string>& args,
                                            const std::vector<CommandFlag>& flags,
                                            const std::vector<CommandValue>& values) {
  std::vector<std::string> operands;
  for (auto word = args.begin(); word != args.end(); ++word) {
    if (*word == "--") {
      operands.insert(operands.end(), word + 1, args.end());
      break;
    }
    if (word->size() < 2 || word->front() != '-') {
      operands.push_back(*word);
      continue;
    }
    const auto flag = std::find_if(flags.begin(), flags.end(), [&](const CommandFlag& candidate) {
      return candidate.spelling == (*word == "-h" ? std::string_view("--help") : *word);
    });
    if (flag != flags.end()) {
      *flag->value = true;
      continue;
    }
    std::optional<std::string> attached;
    const auto* const value = find_value(*word, values, attached);
    if (value == nullptr) return unknown(command, *word, args, flags, values);
    if (!attached && word + 1 == args.end())
      return fail(std::string(value->spelling) + " of " + std::string(command) + " needs a value",
                  kExitUsage);
    *value->value = attached ? *attached : *++word;
  }
  return operands;
}

int print_text(std::string_view text) {
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (written) return kExitOk;
  print_own_line(error_text(fail_errno("cannot write to stdout", errno).message));
  return kExitLauncher;
}

}  // namespace hvdrun
