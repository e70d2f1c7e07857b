#include "commands/subcommand.hpp"

#include "base/severity.hpp"
#include "cli/program.hpp"
#include "common/text.hpp"
#include "output/own_line.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

namespace hvdrun {
namespace {

Error unknown(std::string_view command, const std::string& word,
              const std::vector<CommandFlag>& flags) {
  std::vector<std::string_view> known;
  for (const auto& flag : flags) known.push_back(flag.spelling);
  const auto nearest = nearest_name(word, known);
  const std::string whose(command);
  return fail("unknown option " + quote_if_needed(word) + " of " + whose +
                  (nearest.empty() ? "; " + whose + " --help lists all"
                                   : "; did you mean " + std::string(nearest) + "?"),
              kExitUsage);
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
                                            const std::vector<CommandFlag>& flags) {
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
    if (flag == flags.end()) return unknown(command, *word, flags);
    *flag->value = true;
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
