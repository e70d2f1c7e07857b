#include "scale/chart.hpp"

#include "scale/plot.hpp"

#include <fmt/format.h>

namespace hvdrun::scale {
namespace {

constexpr double kPlotWidth = 330;
constexpr double kPlotHeight = 300;
constexpr double kGap = 12;
constexpr double kLegend = 30;

constexpr const char* kStyle = R"(<style>
.hvd-scaling{--paper:#fff;--ink:#1d2329;--dim:#59636e;--grid:#e4e7eb;--line:#0b62c4;--ideal:#8b949e}
@media (prefers-color-scheme:dark){
.hvd-scaling{--paper:#14181d;--ink:#e6eaef;--dim:#9aa4af;--grid:#2a3038;--line:#62a8ff;--ideal:#7d8790}}
.hvd-scaling text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:var(--dim)}
.hvd-scaling .title{font-size:14px;font-weight:600;fill:var(--ink)}
.hvd-scaling .unit{font-size:12px;font-weight:400;fill:var(--dim)}
.hvd-scaling .value{font-weight:600;fill:var(--ink);paint-order:stroke;stroke:var(--paper);stroke-width:3px}
.hvd-scaling .paper{fill:var(--paper)}
.hvd-scaling path{fill:none}
.hvd-scaling .grid{stroke:var(--grid)}
.hvd-scaling .axis{stroke:var(--dim)}
.hvd-scaling .line{stroke:var(--line);stroke-width:2}
.hvd-scaling .range{stroke:var(--line)}
.hvd-scaling .point{fill:var(--line)}
.hvd-scaling .ideal{stroke:var(--ideal);stroke-width:1.5;stroke-dasharray:5 4}
</style>
)";

using Member = std::optional<Figure> SizeSummary::*;

std::vector<Plot::Point> points_of(const Summary& summary, Member figure) {
  std::vector<Plot::Point> points;
  for (const auto& size : summary.sizes)
    if (size.*figure) points.push_back({size.size, *(size.*figure)});
  return points;
}

// What the baseline has, so many times as much at so many times the ranks; or that much less.
std::function<double(double)> proportional(const Summary& summary, Member figure, bool grows) {
  const double base = summary.baseline;
  for (const auto& size : summary.sizes) {
    if (size.size != summary.baseline || !(size.*figure)) continue;
    const double at_base = (size.*figure)->median;
    return [=](double ranks) { return grows ? at_base * ranks / base : at_base * base / ranks; };
  }
  return [](double) { return 0.0; };
}

Plot plot_of(const Summary& summary, const std::string& title, const std::string& unit,
             Member figure, bool grows) {
  return {title, unit, points_of(summary, figure), proportional(summary, figure, grows), grows};
}

std::string legend(double left, double top) {
  return fmt::format(
      "<path class=\"line\" d=\"M{0:.1f} {1:.1f}h26\"/>"
      "<circle class=\"point\" cx=\"{2:.1f}\" cy=\"{1:.1f}\" r=\"3.5\"/>"
      "<text x=\"{3:.1f}\" y=\"{4:.1f}\">measured (median, range)</text>\n"
      "<path class=\"ideal\" d=\"M{5:.1f} {1:.1f}h26\"/>"
      "<text x=\"{6:.1f}\" y=\"{4:.1f}\">ideal</text>\n",
      left, top, left + 13, left + 34, top + 4, left + 200, left + 234);
}

std::vector<Plot> plots_of(const Summary& summary) {
  const Member seconds =
      summary.knows_epochs() ? &SizeSummary::epoch_seconds : &SizeSummary::wall_seconds;
  std::vector<Plot> plots{plot_of(summary,
                                  summary.knows_epochs() ? "Time of an epoch" : "Time of a run",
                                  "seconds", seconds, false)};
  if (summary.knows_throughput())
    plots.push_back(
        plot_of(summary, "Throughput", "samples a second", &SizeSummary::throughput, true));
  plots.push_back(plot_of(
      summary, "Speed-up",
      fmt::format("times as fast as {} rank{}", summary.baseline, summary.baseline == 1 ? "" : "s"),
      &SizeSummary::speedup, true));
  return plots;
}

std::string begin_svg(const std::string& title, double width, double height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"hvd-scaling\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\">\n<title>{2}</title>\n",
      width, height, title);
}

}  // namespace

std::string study_svg(const Summary& summary) {
  const auto plots = plots_of(summary);
  const auto count = static_cast<double>(plots.size());
  std::string svg = begin_svg("Scaling over ranks", count * kPlotWidth + (count + 1) * kGap,
                              kPlotHeight + kLegend + kGap);
  svg += kStyle;
  svg += "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n";
  double left = kGap;
  for (const auto& plot : plots) {
    svg += draw_plot(plot, left, kGap, kPlotWidth, kPlotHeight);
    left += kPlotWidth + kGap;
  }
  svg += legend(kGap + 44, kPlotHeight + kGap + kLegend / 2);
  return svg + "</svg>\n";
}

std::string study_plots(const Summary& summary) {
  std::string html = std::string(kStyle) + "<div class=\"plots\">\n";
  for (const auto& plot : plots_of(summary))
    html += begin_svg(plot.title, kPlotWidth, kPlotHeight + kLegend) +
            draw_plot(plot, 0, 0, kPlotWidth, kPlotHeight) + legend(44, kPlotHeight + kLegend / 2) +
            "</svg>\n";
  return html + "</div>\n";
}

}  // namespace hvdrun::scale
