#include "commands/log_lines.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// A line that is longer is cut there: it may never end.
constexpr std::size_t kLongestLine = 64u << 10;

std::string shown(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (const auto back = line.rfind('\r'); back != std::string_view::npos)
    line.remove_prefix(back + 1);
  return std::string(line);
}

}  // namespace

std::vector<LogChunk> log_chunks_from(const ControlJson& answer) {
  std::vector<LogChunk> chunks;
  const auto list = answer.find("chunks");
  if (list == answer.end() || !list->is_array()) return chunks;
  for (const auto& each : *list) try {
      chunks.push_back({each.at("number").get<std::uint64_t>(),
                        each.at("follows").get<std::uint64_t>(), each.at("rank").get<int>(),
                        each.at("stderr").get<bool>(), each.at("begins_line").get<bool>(),
                        bytes_of_text(each.at("text").get<std::string>())});
    } catch (const ControlJson::exception&) {  // it is left out
    }
  return chunks;
}

std::vector<LogLine> LogLines::add(const LogChunk& chunk) {
  std::vector<LogLine> lines;
  auto& begun = begun_[std::pair(chunk.rank, chunk.is_stderr)];
  if (chunk.follows != begun.last) begun.line.reset();
  begun.last = chunk.number;
  if (chunk.begins_line) {  // another attempt's may follow one that has not ended
    if (begun.line && !begun.line->empty()) lines.push_back({chunk.rank, shown(*begun.line)});
    begun.line.emplace();
  }
  std::string_view rest = chunk.bytes;
  while (!rest.empty()) {
    const auto newline = rest.find('\n');
    if (begun.line) begun.line->append(rest.substr(0, newline));
    if (newline == std::string_view::npos) break;
    if (begun.line) lines.push_back({chunk.rank, shown(*begun.line)});
    begun.line.emplace();
    rest.remove_prefix(newline + 1);
  }
  if (begun.line && begun.line->size() > kLongestLine) begun.line->resize(kLongestLine);
  return lines;
}

std::vector<LogLine> LogLines::unfinished() const {
  std::vector<LogLine> lines;
  for (const auto& [key, begun] : begun_)
    if (begun.line && !begun.line->empty()) lines.push_back({key.first, shown(*begun.line)});
  return lines;
}

std::vector<LogLine> last_of_each(std::vector<LogLine> lines, std::size_t most) {
  std::map<int, std::size_t> seen;
  std::vector<LogLine> last;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line)
    if (++seen[line->rank] <= most) last.push_back(std::move(*line));
  std::ranges::reverse(last);
  return last;
}

std::string labelled(const LogLine& line, int ranks) {
  if (ranks <= 1) return line.text;
  const auto label = fmt::format("[{}]", line.rank);
  const auto width = fmt::formatted_size("[{}]", ranks - 1);
  return fmt::format("{:<{}} {}", label, width, line.text);
}

}  // namespace hvdrun
