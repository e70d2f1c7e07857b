#include "channels/srun_output.hpp"

#include <charconv>
#include <system_error>

namespace hvdrun {
namespace {

constexpr std::size_t kLongestLine = 4096;
constexpr std::size_t kMostTasks = 1u << 20;  // more than any cluster has hosts

bool skip(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool skip_number(std::string_view& text, std::size_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// Reads "0-2,5". Returns false if the text has another form.
bool parse_tasks(std::string_view text, std::vector<std::size_t>& tasks) {
  do {
    std::size_t first = 0;
    if (!skip_number(text, first)) return false;
    std::size_t last = first;
    if (skip(text, "-") && !skip_number(text, last)) return false;
    if (last < first || last - first >= kMostTasks || tasks.size() >= kMostTasks) return false;
    for (std::size_t task = first; task <= last; ++task) tasks.push_back(task);
  } while (skip(text, ","));
  return text.empty();
}

}  // namespace

SrunLine parse_srun_line(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  SrunLine parsed;
  if (skip(line, "srun: ")) {
    skip(line, "error: ") || skip(line, "fatal: ");
  } else {
    auto rest = line;
    while (skip(rest, " ")) {
    }
    std::size_t task = 0;
    if (skip_number(rest, task) && skip(rest, ": ")) {
      parsed.task = task;
      line = rest;
    }
  }
  parsed.text = line;
  return parsed;
}

std::optional<SrunTaskEnd> parse_task_end(std::string_view text) {
  const auto at = text.find(": task");
  if (at == std::string_view::npos) return std::nullopt;
  SrunTaskEnd end;
  end.hosts = text.substr(0, at);
  text.remove_prefix(at);
  if (!skip(text, ": tasks ") && !skip(text, ": task ")) return std::nullopt;
  const auto colon = text.find(": ");
  if (colon == std::string_view::npos || !parse_tasks(text.substr(0, colon), end.tasks))
    return std::nullopt;
  end.how = text.substr(colon + 2);
  return end;
}

std::vector<SrunLine> SrunReader::feed(std::string_view bytes) {
  std::vector<SrunLine> lines;
  for (const char byte : bytes) {
    if (byte == '\n') {
      lines.push_back(parse_srun_line(rest_));
      rest_.clear();
    } else if (rest_.size() < kLongestLine) {
      rest_ += byte;
    }
  }
  return lines;
}

std::vector<SrunLine> SrunReader::finish() {
  return rest_.empty() ? std::vector<SrunLine>() : feed("\n");
}

}  // namespace hvdrun
