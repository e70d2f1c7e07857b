#include "commands/scale_table.hpp"

#include "commands/scale_numbers.hpp"
#include "commands/scale_statistics.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace hvdrun::scale {
namespace {

constexpr int kWidth = 72;

std::string upper(std::string text) {
  for (auto& letter : text)
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  return text;
}

// Returns the spread in per cent of the median; "-" for a single value.
std::string spread_of(const std::optional<Figure>& figure) {
  if (!figure || figure->count < 2 || figure->median == 0) return "-";
  return percent_text(figure->spread() / figure->median);
}

std::string metric_text(const Figure* figure) {
  if (figure == nullptr) return "-";
  auto text = significant(figure->median);
  if (figure->spread() == 0 || !std::isfinite(figure->spread()) || figure->median == 0) return text;
  return text + " (" + percent_text(figure->spread() / std::abs(figure->median)) + ")";
}

TableRow table_row_of(const Summary& summary, const SizeSummary& size) {
  TableRow row{std::to_string(size.size)};
  const auto add = [&](const std::optional<Figure>& figure, std::string (*text)(double)) {
    row.push_back(figure ? text(figure->median) : "-");
  };
  add(summary.seconds(size), seconds_text);
  row.push_back(spread_of(summary.seconds(size)));
  if (summary.knows_throughput()) add(size.throughput, significant);
  add(size.speedup, significant);
  add(size.efficiency, percent_text);
  for (const auto& name : summary.metrics) row.push_back(metric_text(size.metric(name)));
  return row;
}

// Returns a bar of that length. Its last column is in eighths if `blocks`, otherwise whole.
std::string bar(double columns, bool blocks) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<int>(std::lround(8 * columns));
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += blocks ? "█" : "#";
  if (blocks) return text + kEighths[eighths % 8];
  return text + (eighths % 8 >= 4 ? "#" : "");
}

// Returns how many columns that bar takes.
int columns_of(double columns, bool blocks) {
  const auto eighths = static_cast<int>(std::lround(8 * columns));
  return eighths / 8 + ((blocks ? eighths % 8 > 0 : eighths % 8 >= 4) ? 1 : 0);
}

}  // namespace

std::vector<std::string> study_table(const Summary& summary) {
  TableRow title{upper(unit_name(summary.unit)), summary.knows_epochs() ? "EPOCH" : "RUN",
                 "SPREAD"};
  if (summary.knows_throughput()) title.emplace_back("SAMPLES/S");
  title.insert(title.end(), {"SPEED-UP", "EFFICIENCY"});
  for (const auto& name : summary.metrics) title.push_back(upper(name));
  std::vector<TableRow> rows{std::move(title)};
  for (const auto& size : summary.sizes) rows.push_back(table_row_of(summary, size));
  auto lines = table_lines(rows);
  for (std::size_t i = 0; i < summary.sizes.size(); ++i) {
    const auto& size = summary.sizes[i];
    if (size.runs > 0) continue;
    const auto what = size.failed > 0 ? "failed: " + size.failure : "not run";
    lines[i + 1] = fmt::format("{:<{}}  {}", size.size, rows.front().front().size(), what);
  }
  return lines;
}

std::vector<std::string> speedup_bars(const Summary& summary, int width, bool blocks) {
  double most = 0;
  int shown = 0;
  for (const auto& size : summary.sizes) {
    if (!size.speedup) continue;
    ++shown;
    most = std::max({most, size.speedup->median, size.speedup->median / size.efficiency->median});
  }
  if (shown < 2) return {};
  constexpr int kLabels = 16;  // columns for the size before the bar and the number after it
  const double scale = (width - kLabels) / most;
  const char* const mark = blocks ? "│" : "|";
  std::vector<std::string> lines{
      fmt::format("speed-up over {} ({} ideal)", size_text(summary.unit, summary.baseline), mark)};
  for (const auto& size : summary.sizes) {
    if (!size.speedup) continue;
    const double ideal = static_cast<double>(size.size) / summary.baseline;
    const double length = size.speedup->median * scale;
    std::string line = fmt::format("{:>5}  ", size.size) + bar(length, blocks);
    const int used = columns_of(length, blocks);
    const int at = static_cast<int>(std::lround(ideal * scale));
    if (at >= used) line += std::string(static_cast<std::size_t>(at - used), ' ') + mark;
    line += "  " + significant(size.speedup->median);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string study_text(const Summary& summary, bool blocks) {
  std::string text;
  const auto add = [&](const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    if (!text.empty()) text += "\n";
    for (const auto& line : lines) text += line + "\n";
  };
  add(study_table(summary));
  add(speedup_bars(summary, kWidth, blocks));
  std::vector<std::string> remarks;
  for (const auto& warning : summary.warnings) remarks.push_back("warning: " + warning);
  for (const auto& note : summary.notes) remarks.push_back("note: " + note);
  add(remarks);
  return text;
}

}  // namespace hvdrun::scale
