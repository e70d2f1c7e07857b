#include "output/own_line.hpp"

#include "base/severity.hpp"
#include "common/text.hpp"
#include "output/color.hpp"

#include <cstdio>

#include <unistd.h>

namespace hvdrun {
namespace {

struct Severity {
  std::string_view word;
  std::string_view color;  // bold, and a colour of the user's own theme
};
constexpr Severity kError{kErrorWord, "\x1b[1;31m"};
constexpr Severity kWarning{kWarningWord, "\x1b[1;33m"};
constexpr Severity kNote{"note: ", "\x1b[1;36m"};

}  // namespace

std::string own_line(std::string_view text, bool is_colored) {
  std::string line = "hvdrun: ";
  if (text.starts_with(' ')) return line.append(text);
  Severity severity = kNote;
  for (const auto& known : {kError, kWarning})
    if (text.starts_with(known.word)) {
      severity = known;
      text.remove_prefix(known.word.size());
    }
  if (is_colored) line.append(severity.color);
  line.append(severity.word.substr(0, severity.word.size() - 1));
  if (is_colored) line.append(kColorEnd);
  return line.append(" ").append(text);
}

void print_own_line(std::string_view text, ColorMode mode) {
  const bool is_colored =
      wants_color(mode, ::isatty(STDERR_FILENO) == 1, TerminalEnvironment::of_process());
  std::fputs((own_line(printable(text), is_colored) + "\n").c_str(), stderr);
}

}  // namespace hvdrun
