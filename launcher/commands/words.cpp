#include "commands/words.hpp"

#include "base/nearest.hpp"
#include "base/quote.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace hvdrun {
namespace {

tl::unexpected<Error> unknown(std::string_view command, const std::string& word,
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

void say_note(std::string_view text) {
  std::fputs(("hvdrun: " + printable(text) + "\n").c_str(), stderr);
}

int print_text(std::string_view text) {
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (written) return kExitOk;
  say_note(fail_errno("cannot write to stdout", errno).value().message);
  return kExitLauncher;
}

}  // namespace hvdrun
