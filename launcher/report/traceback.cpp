#include "report/traceback.hpp"

#include <algorithm>

namespace hvdrun {

std::string exception_at_end(const std::vector<std::string>& lines) {
  if (lines.size() < 2 || lines.back().starts_with(' ') ||
      !lines[lines.size() - 2].starts_with(' '))
    return {};
  const bool has_traceback = std::ranges::any_of(
      lines, [](const std::string& line) { return line.starts_with("  File \""); });
  return has_traceback ? lines.back() : std::string();
}

}  // namespace hvdrun
