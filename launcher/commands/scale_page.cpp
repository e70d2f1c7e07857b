#include "commands/scale_page.hpp"

#include "commands/markup.hpp"
#include "commands/scale_numbers.hpp"
#include "commands/scale_plot.hpp"
#include "common/text.hpp"

#include <string>
#include <string_view>
#include <vector>

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
pre{margin:0 0 .25rem;color:var(--dim);white-space:pre-wrap;overflow-wrap:anywhere;font-size:.875rem}
svg{max-width:100%;height:auto}
.plots{display:flex;flex-wrap:wrap;gap:1rem}
table{border-collapse:collapse;margin:1.5rem 0;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto}
th,td{padding:.35rem .9rem .35rem 0;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
th{font-weight:600}
th:first-child,td:first-child{text-align:left}
td[colspan]{text-align:left}
.made{margin:0 0 1.5rem;color:var(--dim);font-size:.875rem;overflow-wrap:anywhere}
.range{color:var(--dim);font-size:.8125rem}
@media (max-width:44rem){
tr:first-child{display:none}
tr{display:block;padding:.5rem 0;border-bottom:1px solid var(--rule)}
td,td:first-child{display:flex;justify-content:space-between;padding:.1rem 0;border:0;text-align:right}
td:first-child{font-weight:600}
td::before{content:attr(data-label);color:var(--dim);font-weight:400}
table{width:100%}
}
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

// Returns a cell. On a narrow screen, where the table has no titles, `title` is shown beside it.
std::string plain_cell(const std::string& title, const std::string& html) {
  return fmt::format("<td data-label=\"{}\"><span>{}</span></td>", escape_markup(title), html);
}

std::string cell(const std::string& title, const Figure* figure, Text text) {
  if (figure == nullptr) return plain_cell(title, "–");
  std::string html = text(figure->median);
  const auto least = text(figure->least);
  const auto most = text(figure->most);
  if (least != most) html += fmt::format("<br><span class=\"range\">{} to {}</span>", least, most);
  return plain_cell(title, html);
}

const Figure* address_of(const std::optional<Figure>& figure) {
  return figure ? &*figure : nullptr;
}

std::vector<std::string> titles_of(const Summary& summary) {
  std::vector<std::string> titles{capital(unit_name(summary.unit)), "Runs",
                                  summary.knows_epochs() ? "Epoch" : "Run"};
  if (summary.knows_throughput()) titles.emplace_back("Samples per second");
  titles.insert(titles.end(), {"Speed-up", "Efficiency"});
  for (const auto& name : summary.metrics) titles.push_back(capital(name));
  return titles;
}

std::string row_of(const Summary& summary, const SizeSummary& size) {
  const auto titles = titles_of(summary);
  std::string html = "<tr>" + plain_cell(titles[0], std::to_string(size.size));
  if (size.runs == 0)
    return html +
           fmt::format("<td colspan=\"{}\">{}</td></tr>\n", titles.size() - 1,
                       size.failed > 0 ? "failed: " + escape_markup(size.failure) : "not run");
  auto title = titles.begin() + 1;
  html += plain_cell(*title++, std::to_string(size.runs));
  html += cell(*title++, address_of(summary.seconds(size)), seconds_text);
  if (summary.knows_throughput()) html += cell(*title++, address_of(size.throughput), significant);
  html += cell(*title++, address_of(size.speedup), significant);
  html += cell(*title++, address_of(size.efficiency), percent_text);
  for (const auto& name : summary.metrics) html += cell(*title++, size.metric(name), significant);
  return html + "</tr>\n";
}

std::string table_of(const Summary& summary) {
  std::string html = "<div class=\"wide\"><table>\n<tr>";
  for (const auto& title : titles_of(summary)) html += "<th>" + escape_markup(title) + "</th>";
  html += "</tr>\n";
  for (const auto& size : summary.sizes) html += row_of(summary, size);
  return html + "</table></div>\n";
}

std::vector<std::string> how_measured(const Study& study, const Summary& summary) {
  std::vector<std::string> lines;
  lines.push_back(fmt::format(
      "{} at each size{}", plural(study.repeats, "run"),
      study.repeats > 1 ? ", all sizes in turn; a figure is their median; below it, where they "
                          "differ, the least and the most"
                        : ""));
  if (summary.knows_epochs())
    lines.push_back(fmt::format(
        "of each run the first {} left out; an epoch takes as long as on the slowest rank",
        study.epochs_dropped == 1 ? "epoch is" : plural(study.epochs_dropped, "epoch") + " are"));
  if (summary.basis == Basis::throughput)
    lines.emplace_back("speed-up is that of samples per second");
  lines.insert(lines.end(), summary.notes.begin(), summary.notes.end());
  return lines;
}

// Returns "2026-01-31 12:00 UTC, hvdrun 0.1.0, n1: 16 cores, 4 × NVIDIA H200".
std::string how_made(const Study& study) {
  const auto date = date_text(study.date);
  std::string text =
      fmt::format("{} {} UTC, hvdrun {}", date.substr(0, 10), date.substr(11, 5), study.version);
  for (const auto& host : hosts_of(study)) text += ", " + hardware_text(host);
  return text;
}

}  // namespace

std::string study_page(const Study& study, const Summary& summary) {
  std::string html = kHead;
  html += "<h1>Scaling study</h1>\n<pre>" + escape_markup(study.command) + "</pre>\n";
  html += "<p class=\"made\">" + escape_markup(how_made(study)) + "</p>\n";
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
