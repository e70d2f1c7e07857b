#include "commands/scale_study.hpp"

#include "base/files.hpp"
#include "commands/scale_numbers.hpp"
#include "commands/scale_page.hpp"
#include "commands/scale_plot.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hvdrun::scale {
namespace {

Result<void> write_file(const std::filesystem::path& file, const std::string& text) {
  HVD_TRY(NewFile made, NewFile::create(file, "cannot write " + file.string()));
  return made.commit(text);
}

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json figure_json(const std::optional<Figure>& figure) {
  if (!figure) return {};
  return {{"median", figure->median}, {"least", figure->least}, {"most", figure->most}};
}

Json run_json(const Run& run) {
  Json metrics = Json::object();
  for (const auto& metric : run.metrics) metrics[metric.name] = metric.value;
  return {{"ranks", run.size},
          {"repeat", run.repeat},
          {"exit_code", run.exit_code},
          {"trouble", run.trouble},
          {"wall_seconds", run.wall_seconds},
          {"epochs", run.epochs},
          {"epoch_seconds", or_null(run.epoch_seconds)},
          {"samples_per_second", or_null(run.throughput)},
          {"metrics", std::move(metrics)}};
}

Json size_json(const SizeSummary& size) {
  Json metrics = Json::object();
  for (const auto& metric : size.metrics) metrics[metric.name] = figure_json(metric.figure);
  return {{"ranks", size.size},
          {"runs", size.runs},
          {"failed", size.failed},
          {"wall_seconds", figure_json(size.wall_seconds)},
          {"epoch_seconds", figure_json(size.epoch_seconds)},
          {"samples_per_second", figure_json(size.throughput)},
          {"speedup", figure_json(size.speedup)},
          {"efficiency", figure_json(size.efficiency)},
          {"metrics", std::move(metrics)}};
}

const char* name_of(Basis basis) {
  switch (basis) {
    case Basis::throughput:
      return "samples_per_second";
    case Basis::epoch_seconds:
      return "epoch_seconds";
    case Basis::wall_seconds:
      break;
  }
  return "wall_seconds";
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string csv_figure(const std::optional<Figure>& figure) {
  if (!figure) return ",,,";
  return fmt::format(",{:.6g},{:.6g},{:.6g}", figure->median, figure->least, figure->most);
}

constexpr int kWidth = 72;

std::string upper(std::string text) {
  for (auto& letter : text)
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  return text;
}

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

// The bar up to `length` eighths of a column, in eighths where there are such characters.
std::string bar(double columns, bool blocks) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<int>(std::lround(8 * columns));
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += blocks ? "█" : "#";
  if (blocks) return text + kEighths[eighths % 8];
  return text + (eighths % 8 >= 4 ? "#" : "");
}

int columns_of(double columns, bool blocks) {
  const auto eighths = static_cast<int>(std::lround(8 * columns));
  return eighths / 8 + ((blocks ? eighths % 8 > 0 : eighths % 8 >= 4) ? 1 : 0);
}

}  // namespace

Result<void> write_study(const Study& study, const Summary& summary,
                         const std::filesystem::path& folder) {
  HVD_CHECK(write_file(folder / "scaling.json", study_json(study, summary)));
  HVD_CHECK(write_file(folder / "scaling.csv", study_csv(summary)));
  HVD_CHECK(write_file(folder / "scaling.svg", study_svg(summary)));
  return write_file(folder / "scaling.html", study_page(study, summary));
}

std::string study_json(const Study& study, const Summary& summary) {
  Json sizes = Json::array();
  for (const auto& size : summary.sizes) sizes.push_back(size_json(size));
  Json runs = Json::array();
  for (const auto& run : study.runs) runs.push_back(run_json(run));
  const Json json{{"version", 1},
                  {"command", study.command},
                  {"repeats", study.repeats},
                  {"epochs_dropped", study.epochs_dropped},
                  {"interrupted", study.interrupted},
                  {"baseline", summary.baseline == 0 ? Json() : Json(summary.baseline)},
                  {"speedup_from", name_of(summary.basis)},
                  {"sizes", std::move(sizes)},
                  {"warnings", summary.warnings},
                  {"notes", summary.notes},
                  {"runs", std::move(runs)}};
  // What the user typed need not be UTF-8, and JSON must be.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string study_csv(const Summary& summary) {
  std::string text = "ranks,runs,failed";
  const auto title = [&](const std::string& name) {
    for (const char* const which : {"median", "least", "most"})
      text += "," + csv_field(name + "_" + which);
  };
  for (const char* const name :
       {"wall_seconds", "epoch_seconds", "samples_per_second", "speedup", "efficiency"})
    title(name);
  for (const auto& name : summary.metrics) title(name);
  text += "\r\n";
  for (const auto& size : summary.sizes) {
    text += fmt::format("{},{},{}", size.size, size.runs, size.failed);
    for (const auto& figure :
         {size.wall_seconds, size.epoch_seconds, size.throughput, size.speedup, size.efficiency})
      text += csv_figure(figure);
    for (const auto& name : summary.metrics) {
      const Figure* const figure = size.metric(name);
      text += csv_figure(figure == nullptr ? std::nullopt : std::optional(*figure));
    }
    text += "\r\n";
  }
  return text;
}

std::vector<std::string> study_table(const Summary& summary) {
  TableRow title{"RANKS", summary.knows_epochs() ? "EPOCH" : "RUN", "SPREAD"};
  if (summary.knows_throughput()) title.emplace_back("SAMPLES/S");
  title.insert(title.end(), {"SPEED-UP", "EFFICIENCY"});
  for (const auto& name : summary.metrics) title.push_back(upper(name));
  std::vector<TableRow> rows{std::move(title)};
  for (const auto& size : summary.sizes) rows.push_back(table_row_of(summary, size));
  auto lines = table_lines(rows);
  for (std::size_t i = 0; i < summary.sizes.size(); ++i) {
    const auto& size = summary.sizes[i];
    if (size.runs > 0) continue;
    const auto what = size.failed > 0 ? "failed: " + size.trouble : "not run";
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
  constexpr int kLabels = 16;  // the rank before the bar, the number behind it
  const double scale = (width - kLabels) / most;
  const char* const mark = blocks ? "│" : "|";
  std::vector<std::string> lines{fmt::format("speed-up over {} rank{} ({} ideal)", summary.baseline,
                                             summary.baseline == 1 ? "" : "s", mark)};
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
