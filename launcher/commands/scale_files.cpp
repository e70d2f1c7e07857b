#include "commands/scale_files.hpp"

#include "base/new_file.hpp"
#include "commands/scale_numbers.hpp"
#include "commands/scale_page.hpp"
#include "commands/scale_plot.hpp"
#include "commands/scale_statistics.hpp"

#include <optional>
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

Json run_json(Unit unit, const Run& run) {
  Json metrics = Json::object();
  for (const auto& metric : run.metrics) metrics[metric.name] = metric.value;
  return {{"size", run.size},
          {"ranks", unit == Unit::ranks ? run.size : 1},
          {"repeat", run.repeat},
          {"exit_code", run.exit_code},
          {"trouble", run.failure},
          {"wall_seconds", run.wall_seconds},
          {"epochs", run.epochs},
          {"epoch_seconds", or_null(run.epoch_seconds)},
          {"samples_per_second", or_null(run.throughput)},
          {"metrics", std::move(metrics)}};
}

Json size_json(Unit unit, const SizeSummary& size) {
  Json metrics = Json::object();
  for (const auto& metric : size.metrics) metrics[metric.name] = figure_json(metric.figure);
  return {{"size", size.size},
          {"ranks", unit == Unit::ranks ? size.size : 1},
          {"runs", size.runs},
          {"failed", size.failed},
          {"wall_seconds", figure_json(size.wall_seconds)},
          {"epoch_seconds", figure_json(size.epoch_seconds)},
          {"samples_per_second", figure_json(size.throughput)},
          {"speedup", figure_json(size.speedup)},
          {"efficiency", figure_json(size.efficiency)},
          {"metrics", std::move(metrics)}};
}

Json host_json(const HostHardware& host) {
  Json devices = Json::array();
  for (const auto& name : host.gpus) devices.push_back(name.empty() ? Json() : Json(name));
  return {{"host", host.host}, {"cores", host.cores}, {"devices", std::move(devices)}};
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
  for (const auto& size : summary.sizes) sizes.push_back(size_json(study.unit, size));
  Json runs = Json::array();
  for (const auto& run : study.runs) runs.push_back(run_json(study.unit, run));
  Json hosts = Json::array();
  for (const auto& host : hosts_of(study)) hosts.push_back(host_json(host));
  const Json json{{"version", 1},
                  {"command", study.command},
                  {"date", date_text(study.date)},
                  {"versions", {{"hvdrun", study.version}}},
                  {"hosts", std::move(hosts)},
                  {"unit", unit_name(study.unit)},
                  {"repeats", study.repeats},
                  {"epochs_dropped", study.epochs_dropped},
                  {"interrupted", study.interrupted},
                  {"baseline", summary.baseline == 0 ? Json() : Json(summary.baseline)},
                  {"speedup_from", name_of(summary.basis)},
                  {"sizes", std::move(sizes)},
                  {"warnings", summary.warnings},
                  {"notes", summary.notes},
                  {"runs", std::move(runs)}};
  // Replaces what is not UTF-8 in what the user typed, because JSON must be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string study_csv(const Summary& summary) {
  std::string text = unit_name(summary.unit) + ",runs,failed";
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

}  // namespace hvdrun::scale
