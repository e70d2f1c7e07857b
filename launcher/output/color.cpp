#include "output/color.hpp"

#include <array>
#include <cstddef>
#include <cstdlib>

namespace hvdrun {
namespace {

// From xterm's 256 colours. Each has a contrast of about 3:1 or better with both black and white.
constexpr std::array<std::string_view, 8> kMany = {
    "\x1b[38;5;32m",  "\x1b[38;5;166m", "\x1b[38;5;34m",  "\x1b[38;5;133m",
    "\x1b[38;5;136m", "\x1b[38;5;37m",  "\x1b[38;5;161m", "\x1b[38;5;99m"};
// From the user's own theme, without yellow and white, which are unreadable on white.
constexpr std::array<std::string_view, 5> kFew = {"\x1b[36m", "\x1b[35m", "\x1b[32m", "\x1b[34m",
                                                  "\x1b[31m"};

bool is_on(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' && std::string_view(value) != "0";
}

}  // namespace

TerminalEnvironment TerminalEnvironment::of_process() {
  return {std::getenv("TERM"), std::getenv("NO_COLOR"), std::getenv("COLORTERM"),
          is_on("FORCE_COLOR") || is_on("CLICOLOR_FORCE")};
}

bool TerminalEnvironment::has_escapes() const {
  return term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

bool TerminalEnvironment::has_256_colors() const {
  if (colorterm != nullptr && *colorterm != '\0') return true;
  return term != nullptr && std::string_view(term).find("256color") != std::string_view::npos;
}

bool TerminalEnvironment::refuses_color() const {
  return no_color != nullptr && *no_color != '\0';
}

bool wants_color(ColorMode mode, bool is_terminal, const TerminalEnvironment& environment) {
  if (mode != ColorMode::automatic) return mode == ColorMode::always;
  if (environment.refuses_color()) return false;
  return environment.forces_color || (is_terminal && environment.has_escapes());
}

std::string_view label_color(int rank, bool has_256_colors) {
  const auto index = static_cast<std::size_t>(rank);
  return has_256_colors ? kMany[index % kMany.size()] : kFew[index % kFew.size()];
}

}  // namespace hvdrun
