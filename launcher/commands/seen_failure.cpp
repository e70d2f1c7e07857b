#include "commands/seen_failure.hpp"

#include <algorithm>
#include <cstddef>

namespace hvdrun {
namespace {

constexpr std::size_t kLongest = 1024;
constexpr std::string_view kError = "hvdrun: error: ";
constexpr std::string_view kNote = "hvdrun: note: ";

}  // namespace

void SeenFailure::take(std::string_view bytes) {
  while (true) {
    const auto end = bytes.find('\n');
    const auto part = bytes.substr(0, end);
    line_.append(part.substr(0, kLongest - std::min(kLongest, line_.size())));
    if (end == std::string_view::npos) return;
    take_line();
    line_.clear();
    bytes.remove_prefix(end + 1);
  }
}

// The other lines of a job that fails are notes, and come before or after the error.
void SeenFailure::take_line() {
  if (line_.starts_with(kError))
    text_ = line_.substr(kError.size());
  else if (line_.starts_with(kNote) && line_.find(" succeeded in ") != std::string::npos)
    text_.clear();
}

}  // namespace hvdrun
