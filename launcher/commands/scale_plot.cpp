#include "commands/scale_plot.hpp"

#include "commands/markup.hpp"
#include "commands/scale_axis.hpp"
#include "commands/scale_numbers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace hvdrun::scale {
namespace {

// Margins around the plot's area, for the texts.
constexpr double kLeft = 44;
constexpr double kRight = 14;
constexpr double kTop = 46;
constexpr double kBottom = 46;
constexpr double kTitle = 28;  // height of the title above the area, with room for a number below
// Segments of the ideal line, which is a curve on some axes.
constexpr int kIdealSteps = 48;
// With more sizes than this their numbers would overlap.
constexpr std::size_t kMostLabels = 8;
// Of the numbers at the points, rounded up.
constexpr double kDigitWidth = 7.5;

// Returns a text that is short enough for the space beside the axis: "250k".
std::string tick_text(double value) {
  if (value >= 1e6) return fmt::format("{:.6g}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.6g}k", value / 1e3);
  return fmt::format("{:.6g}", value);
}

class Drawing {
 public:
  Drawing(const Plot& plot, std::vector<Plot::Point> points, double left, double top, double width,
          double height)
      : plot_(plot),
        points_(std::move(points)),
        left_(left + kLeft),
        top_(top + kTop),
        width_(width - kLeft - kRight),
        height_(height - kTop - kBottom),
        across_(Axis::between(points_.front().size, points_.back().size)),
        up_(upright_axis()) {}

  std::string draw() {
    titles();
    grid();
    ideal();
    measured();
    return std::move(svg_);
  }

 private:
  Axis upright_axis() const {
    double least = points_.front().figure.least;
    double most = 0;
    for (const auto& point : points_) {
      const double ideal_here = plot_.ideal(point.size);
      least = std::min({least, point.figure.least, ideal_here});
      most = std::max({most, point.figure.most, ideal_here});
    }
    const bool wide = is_wide(points_.front().size, points_.back().size);
    return wide && least > 0 ? Axis::logarithmic(least, most) : Axis::from_zero(most);
  }

  double x(double size) const { return left_ + across_.place(size) * width_; }
  double y(double value) const { return top_ + (1 - up_.place(value)) * height_; }

  template <class... Values>
  void put(fmt::format_string<Values...> format, Values&&... values) {
    svg_ += fmt::format(format, std::forward<Values>(values)...);
    svg_ += '\n';
  }

  void titles() {
    put(R"(<text class="title" x="{:.1f}" y="{:.1f}">{}<tspan class="unit">  {}</tspan></text>)",
        left_, top_ - kTitle, escape_markup(plot_.title), escape_markup(plot_.unit));
    put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", left_ + width_ / 2,
        top_ + height_ + 38, escape_markup(plot_.sizes));
  }

  void grid() {
    for (const double tick : up_.ticks()) {
      put(R"(<path class="grid" d="M{:.1f} {:.1f}h{:.1f}"/>)", left_, y(tick), width_);
      put(R"(<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", left_ - 6,
          y(tick) + 4, tick_text(tick));
    }
    for (const auto& point : points_) {
      put(R"(<path class="axis" d="M{:.1f} {:.1f}v5"/>)", x(point.size), top_ + height_);
      put(R"(<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)",
          x(point.size), top_ + height_ + 19, point.size);
    }
    put(R"(<path class="axis" d="M{:.1f} {:.1f}h{:.1f}"/>)", left_, top_ + height_, width_);
  }

  void ideal() {
    const double first = points_.front().size;
    const double last = points_.back().size;
    if (first == last) return;
    std::string path;
    for (int i = 0; i <= kIdealSteps; ++i) {
      const double size = first + (last - first) * i / kIdealSteps;
      path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? 'M' : 'L', x(size), y(plot_.ideal(size)));
    }
    put(R"(<path class="ideal" d="{}"/>)", path);
  }

  void measured() {
    std::string path;
    for (const auto& point : points_)
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', x(point.size),
                          y(point.figure.median));
    put(R"(<path class="line" d="{}"/>)", path);
    for (const auto& point : points_) {
      const double across = x(point.size);
      const double from = y(point.figure.least);
      const double to = y(point.figure.most);
      if (from - to > 1)
        put(R"(<path class="range" d="M{0:.1f} {1:.1f}V{2:.1f}M{3:.1f} {1:.1f}h8M{3:.1f} {2:.1f}h8"/>)",
            across, from, to, across - 4);
      put(R"(<circle class="point" cx="{:.1f}" cy="{:.1f}" r="3.5"/>)", across,
          y(point.figure.median));
    }
    if (points_.size() > kMostLabels) return;
    for (const auto& point : points_) label(point);
  }

  struct Box {
    double left, top, right, bottom;
  };

  // Returns how much of a line is in the box, in steps of 2. `height` gives the line's place.
  template <class Height>
  int hits(const Box& box, const Height& height) const {
    int count = 0;
    for (double across = box.left; across <= box.right; across += 2) {
      const double first = x(points_.front().size);
      const double last = x(points_.back().size);
      if (across < first || across > last) continue;
      const double up = height(across);
      count += up >= box.top && up <= box.bottom ? 1 : 0;
    }
    return count;
  }

  double height_of_line(double across) const {
    for (std::size_t i = 1; i < points_.size(); ++i) {
      const double from = x(points_[i - 1].size);
      const double to = x(points_[i].size);
      if (across > to) continue;
      const double begin = y(points_[i - 1].figure.median);
      return begin + (y(points_[i].figure.median) - begin) * (across - from) / (to - from);
    }
    return y(points_.back().figure.median);
  }

  // Returns how many of the other numbers and of the points' ranges are in the box.
  int marks_in(const Box& box) const {
    const auto overlaps = [&](const Box& other) {
      return box.left < other.right && other.left < box.right && box.top < other.bottom &&
             other.top < box.bottom;
    };
    auto count = std::count_if(labels_.begin(), labels_.end(), overlaps);
    for (const auto& point : points_) {
      const double at = x(point.size);
      count += overlaps({at - 4, y(point.figure.most), at + 4, y(point.figure.least)}) ? 1 : 0;
    }
    return static_cast<int>(count);
  }

  // Writes the number of a point beside it, where it covers the least of the lines and of the other
  // numbers. A number of a rising plot is preferably below its point, otherwise above.
  void label(const Plot::Point& point) {
    const std::string text = significant(point.figure.median);
    const double width = kDigitWidth * static_cast<double>(text.size());
    const double above = y(point.figure.most) - 9;
    const double below = y(point.figure.least) + 17;
    const double at = x(point.size);
    double best_cost = std::numeric_limits<double>::infinity();
    double best_left = at;
    double best_up = above;
    Box best_box{};
    double order = 0;
    for (const double up : plot_.grows ? std::array{below, above} : std::array{above, below})
      for (const double left : {at + 3, at - width / 2, at - width - 3}) {
        const Box box{left - 1, up - 10, left + width + 1, up + 2};
        const bool is_inside = box.left >= left_ - 2 && box.right <= left_ + width_ + kRight &&
                               box.top >= top_ - kTitle + 4 && box.bottom <= top_ + height_;
        const double cost =
            order + (is_inside ? 0 : 1e5) + 1e4 * marks_in(box) +
            1e3 * hits(box, [&](double across) { return height_of_line(across); }) +
            3 * hits(box, [&](double across) { return y(plot_.ideal(size_at(across))); });
        order += 0.1;
        if (cost >= best_cost) continue;
        best_cost = cost;
        best_left = left;
        best_up = up;
        best_box = box;
      }
    labels_.push_back(best_box);
    put(R"(<text class="value" x="{:.1f}" y="{:.1f}">{}</text>)", best_left, best_up, text);
  }

  // Returns the size at that place of the axis.
  double size_at(double across) const {
    const double first = points_.front().size;
    const double last = points_.back().size;
    const double part = (across - x(first)) / (x(last) - x(first));
    return is_wide(first, last) ? first * std::pow(last / first, part)
                                : first + (last - first) * part;
  }

  const Plot& plot_;
  std::vector<Plot::Point> points_;
  double left_;
  double top_;
  double width_;
  double height_;
  Axis across_;
  Axis up_;
  std::vector<Box> labels_;  // of the numbers that are written
  std::string svg_;
};

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

// Returns the function of perfect scaling: N times the size has N times the baseline's value if
// the values grow, otherwise an N-th of it.
std::function<double(double)> proportional(const Summary& summary, Member figure, bool grows) {
  const double base = summary.baseline;
  for (const auto& size : summary.sizes) {
    if (size.size != summary.baseline || !(size.*figure)) continue;
    const double at_base = (size.*figure)->median;
    return [=](double at) { return grows ? at_base * at / base : at_base * base / at; };
  }
  return [](double) { return 0.0; };
}

Plot plot_of(const Summary& summary, const std::string& title, const std::string& unit,
             Member figure, bool grows) {
  return {title,
          unit,
          unit_name(summary.unit),
          points_of(summary, figure),
          proportional(summary, figure, grows),
          grows};
}

std::string legend(double left, double top) {
  return fmt::format(
      "<path class=\"line\" d=\"M{0:.1f} {1:.1f}h26\"/>"
      "<circle class=\"point\" cx=\"{2:.1f}\" cy=\"{1:.1f}\" r=\"3.5\"/>"
      "<text x=\"{3:.1f}\" y=\"{4:.1f}\">measured (median, range)</text>\n"
      "<path class=\"ideal\" d=\"M{5:.1f} {1:.1f}h26\"/>"
      "<text x=\"{6:.1f}\" y=\"{4:.1f}\">ideal</text>\n",
      left, top, left + 13, left + 34, top + 4, left + 212, left + 246);
}

std::vector<Plot> plots_of(const Summary& summary) {
  const Member seconds =
      summary.knows_epochs() ? &SizeSummary::epoch_seconds : &SizeSummary::wall_seconds;
  std::vector<Plot> plots{plot_of(summary,
                                  summary.knows_epochs() ? "Time of an epoch" : "Time of a run",
                                  "seconds", seconds, false)};
  if (summary.knows_throughput())
    plots.push_back(
        plot_of(summary, "Throughput", "samples per second", &SizeSummary::throughput, true));
  plots.push_back(plot_of(summary, "Speed-up",
                          "times as fast as " + size_text(summary.unit, summary.baseline),
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

std::string draw_plot(const Plot& plot, double left, double top, double width, double height) {
  std::vector<Plot::Point> points;
  for (const auto& point : plot.points)
    if (std::isfinite(point.figure.least) && std::isfinite(point.figure.most))
      points.push_back(point);
  if (points.empty())
    return fmt::format(
        "<text class=\"title\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n"
        "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">not known</text>\n",
        left + kLeft, top + kTop - 16, escape_markup(plot.title), left + kLeft, top + kTop + 10);
  return Drawing(plot, std::move(points), left, top, width, height).draw();
}

std::string study_svg(const Summary& summary) {
  const auto plots = plots_of(summary);
  const auto count = static_cast<double>(plots.size());
  std::string svg =
      begin_svg("Scaling over " + unit_name(summary.unit), count * kPlotWidth + (count + 1) * kGap,
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
