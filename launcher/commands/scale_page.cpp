#include "commands/scale_page.hpp"

#include "commands/markup.hpp"
#include "commands/scale_numbers.hpp"
#include "commands/scale_plot.hpp"
#include "common/text.hpp"

#include <string_view>

#include <fmt/format.h>

namespace hvdrun::scale {
namespace {

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Scaling study</title>
<style>
:root{--paper:#fff;--ink:#1d2329;--dim:#59636e;--rule:#d9dee3;--warn:#9a3412;--warn-paper:#fff4ec}
@media (prefers-color-scheme:dark){:root{--paper:#14181d;--ink:#e6eaef;--dim:#9aa4af;--rule:#2f363e;--warn:#ffb38a;--warn-paper:#2c1d14}}
body{margin:2rem auto;max-width:66rem;padding:0 1rem;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:1.5rem;margin:0 0 .5rem}
pre{margin:0 0 1.5rem;color:var(--dim);white-space:pre-wrap;overflow-wrap:anywhere;font-size:.875rem}
svg{max-width:100%;height:auto}
.plots{display:flex;flex-wrap:wrap;gap:1rem}
table{border-collapse:collapse;margin:1.5rem 0;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto}
th,td{padding:.35rem .9rem .35rem 0;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
th{font-weight:600}
th:first-child,td:first-child{text-align:left}
td[colspan]{text-align:left}
.range{color:var(--dim);font-size:.8125rem}
.warnings{border-left:4px solid var(--warn);background:var(--warn-paper);color:var(--warn);padding:.6rem 1rem;margin:0 0 1.5rem}
ul{margin:0;padding-left:1.2rem}
.notes{color:var(--dim);font-size:.875rem}
</style>
</head>
<body>
)";

std::string capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z')
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

std::string list_of(const std::vector<std::string>& items) {
  std::string html = "<ul>\n";
  for (const auto& item : items) html += "<li>" + escape_markup(item) + "</li>\n";
  return html + "</ul>\n";
}

using Text = std::string (*)(double);

std::string cell(const Figure* figure, Text text) {
  if (figure == nullptr) return "<td>–</td>";
  std::string html = "<td>" + text(figure->median);
  const auto least = text(figure->least);
  const auto most = text(figure->most);
  if (least != most) html += fmt::format("<br><span class=\"range\">{} to {}</span>", least, most);
  return html + "</td>";
}

const Figure* address_of(const std::optional<Figure>& figure) {
  return figure ? &*figure : nullptr;
}

std::string row_of(const Summary& summary, const SizeSummary& size) {
  std::string html = fmt::format("<tr><td>{}</td>", size.size);
  const auto columns =
      4 + static_cast<int>(summary.knows_throughput()) + static_cast<int>(summary.metrics.size());
  if (size.runs == 0)
    return html +
           fmt::format("<td colspan=\"{}\">{}</td></tr>\n", columns,
                       size.failed > 0 ? "failed: " + escape_markup(size.failure) : "not run");
  html += fmt::format("<td>{}</td>", size.runs);
  html += cell(address_of(summary.seconds(size)), seconds_text);
  if (summary.knows_throughput()) html += cell(address_of(size.throughput), significant);
  html += cell(address_of(size.speedup), significant);
  html += cell(address_of(size.efficiency), percent_text);
  for (const auto& name : summary.metrics) html += cell(size.metric(name), significant);
  return html + "</tr>\n";
}

std::string table_of(const Summary& summary) {
  std::string html = "<div class=\"wide\"><table>\n<tr><th>Ranks</th><th>Runs</th>";
  const auto title = [&](const std::string& text) {
    html += "<th>" + escape_markup(text) + "</th>";
  };
  title(summary.knows_epochs() ? "Epoch" : "Run");
  if (summary.knows_throughput()) title("Samples per second");
  title("Speed-up");
  title("Efficiency");
  for (const auto& name : summary.metrics) title(capital(name));
  html += "</tr>\n";
  for (const auto& size : summary.sizes) html += row_of(summary, size);
  return html + "</table></div>\n";
}

std::vector<std::string> how_measured(const Study& study, const Summary& summary) {
  std::vector<std::string> lines;
  lines.push_back(fmt::format(
      "{} at each size, all sizes in turn; a figure is their median{}",
      plural(study.repeats, "run"),
      study.repeats > 1 ? "; below it, where they differ, the least and the most" : ""));
  if (summary.knows_epochs())
    lines.push_back(fmt::format(
        "of each run the first {} left out; an epoch takes as long as on the slowest rank",
        study.epochs_dropped == 1 ? "epoch is" : plural(study.epochs_dropped, "epoch") + " are"));
  if (summary.basis == Basis::throughput)
    lines.emplace_back("speed-up is that of samples per second");
  lines.insert(lines.end(), summary.notes.begin(), summary.notes.end());
  return lines;
}

}  // namespace

std::string study_page(const Study& study, const Summary& summary) {
  std::string html = kHead;
  html += "<h1>Scaling study</h1>\n<pre>" + escape_markup(study.command) + "</pre>\n";
  if (!summary.warnings.empty())
    html +=
        "<div class=\"warnings\">\n<strong>The results are not the same at every size.</strong>\n" +
        list_of(summary.warnings) + "</div>\n";
  html += study_plots(summary);
  html += table_of(summary);
  html += "<div class=\"notes\">\n" + list_of(how_measured(study, summary)) + "</div>\n";
  return html + "</body>\n</html>\n";
}

}  // namespace hvdrun::scale
