#include "model/traceback.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

namespace hvdrun {
namespace {

using Lines = std::vector<std::string>;

constexpr std::string_view kRankPrefix = "[rank";
constexpr std::string_view kGroupPrefix = "  + Exception Group ";

// Python's words between two tracebacks of a chain.
constexpr std::array<std::string_view, 2> kChain = {
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:"};

// What Gloo, NCCL, TensorFlow, libhvd and Python say of a connection that the peer has ended.
constexpr std::array<std::string_view, 7> kPeerErrors = {
    "Connection closed by peer",
    "Connection closed by remote peer",
    "Connection reset by peer",
    "remote process exited or there was a network error",
    "Socket closed",
    "Broken pipe",
    "PeerError: "};

// Parts of the bars that tqdm, rich and Keras draw.
constexpr std::array<std::string_view, 7> kBars = {"%|",    "it/s", "s/it",  "ms/step",
                                                   "[====", "━━━━", "s/step"};

bool has_any(std::string_view line, const auto& parts) {
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return line.find(part) != std::string_view::npos; });
}

bool is_place(std::string_view line) {
  return without_rank_prefix(line).starts_with("  File \"");
}

// Returns where the header begins in the line, perhaps after a progress bar.
std::optional<std::size_t> header_in(std::string_view line) {
  if (!line.ends_with(kTracebackHeader)) return std::nullopt;
  return line.size() - kTracebackHeader.size();
}

// Returns the index of the last traceback's header, and of the first one's if it is of a chain.
std::optional<std::size_t> find_header(const Lines& lines) {
  std::optional<std::size_t> found;
  for (std::size_t i = lines.size(); i-- > 0;) {
    if (!header_in(lines[i])) continue;
    const auto is_linked = [&] {  // to the traceback below
      for (std::size_t at = i + 1; at < *found; ++at)
        if (has_any(lines[at], kChain)) return true;
      return false;
    };
    if (found && !is_linked()) break;
    found = i;
  }
  return found;
}

// Python prints a warning as "FILE:LINE: CATEGORY: text", and the line of the source below it.
bool is_warning(std::string_view line) {
  const auto at = line.find("Warning: ");
  if (at == std::string_view::npos) return false;
  const auto category = line.rfind(": ", at);
  if (category == std::string_view::npos || category == 0) return false;
  const auto number = line.substr(0, category);
  const auto colon = number.rfind(':');
  return colon != std::string_view::npos && colon + 1 < number.size() &&
         number.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
}

Lines without_noise(const Lines& lines) {
  Lines kept;
  bool after_warning = false;
  for (const auto& line : lines) {
    const bool is_source = after_warning && line.starts_with("  ");
    after_warning = is_warning(without_rank_prefix(line));
    if (!is_source && !after_warning && !line.empty() && !has_any(line, kBars))
      kept.push_back(line);
  }
  return kept;
}

}  // namespace

std::string_view without_rank_prefix(std::string_view line) {
  if (!line.starts_with(kRankPrefix)) return line;
  const auto end = line.find_first_not_of("0123456789", kRankPrefix.size());
  if (end == std::string_view::npos || !line.substr(end).starts_with("]:")) return line;
  line.remove_prefix(end + 2);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

std::string_view without_rank_prefix(std::string_view line, int rank) {
  if (!line.starts_with(kRankPrefix)) return line;
  const auto number = std::to_string(rank);
  const auto after = line.substr(kRankPrefix.size());
  return after.starts_with(number) && after.substr(number.size()).starts_with("]:")
             ? without_rank_prefix(line)
             : line;
}

bool continues_traceback(std::string_view line) {
  line = without_rank_prefix(line);
  return line.empty() || line.starts_with(' ') || line == kTracebackHeader || has_any(line, kChain);
}

std::string exception_at_end(const Lines& lines) {
  if (lines.size() < 2 || continues_traceback(lines.back()) ||
      !without_rank_prefix(lines[lines.size() - 2]).starts_with(' '))
    return {};
  return std::ranges::any_of(lines, is_place) ? std::string(without_rank_prefix(lines.back()))
                                              : std::string();
}

std::string last_exception(const Lines& lines) {
  const auto place = std::find_if(lines.rbegin(), lines.rend(), is_place);
  const auto exception = std::find_if_not(place.base(), lines.end(), continues_traceback);
  if (place == lines.rend() || exception == lines.end()) return {};
  return std::string(without_rank_prefix(*exception));
}

bool is_peer_error(std::string_view exception) {
  return has_any(exception, kPeerErrors);
}

std::vector<std::string> cause_lines(const Lines& lines) {
  if (const auto header = find_header(lines)) {
    Lines cause(lines.begin() + static_cast<std::ptrdiff_t>(*header), lines.end());
    const auto at = *header_in(cause.front());
    const auto line = without_rank_prefix(cause.front());
    if (!line.starts_with(kTracebackHeader) && !line.starts_with(kGroupPrefix))
      cause.front().erase(0, at);
    return cause;
  }
  if (std::ranges::any_of(lines, is_place)) return lines;  // the end of a long traceback
  auto kept = without_noise(lines);
  return kept.empty() ? lines : kept;
}

}  // namespace hvdrun
