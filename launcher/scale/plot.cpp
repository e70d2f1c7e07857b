#include "scale/plot.hpp"

#include "scale/axis.hpp"
#include "scale/markup.hpp"
#include "scale/numbers.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace hvdrun::scale {
namespace {

// Around the plot's area, for what is written there.
constexpr double kLeft = 44;
constexpr double kRight = 14;
constexpr double kTop = 34;
constexpr double kBottom = 46;
// Of the ideal line, which is a curve on some axes.
constexpr int kIdealSteps = 48;
// With more sizes their numbers would lie on each other.
constexpr std::size_t kMostLabels = 8;

// "250k": short enough to stand beside the axis.
std::string tick_text(double value) {
  if (value >= 1e7) return fmt::format("{:.6g}M", value / 1e6);
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
        left_, top_ - 16, escape_markup(plot_.title), escape_markup(plot_.unit));
    put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">ranks</text>)", left_ + width_ / 2,
        top_ + height_ + 38);
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

  // Where the line is not: below one that rises, above one that falls.
  void label(const Plot::Point& point) {
    double across = x(point.size);
    double up = plot_.grows ? y(point.figure.least) + 17 : y(point.figure.most) - 9;
    const bool is_last = &point == &points_.back();
    if (!is_last) across += 3;
    const bool has_room = plot_.grows ? up < top_ + height_ - 3 : up > top_ + 12;
    if (!has_room) {  // beside the range
      across = x(point.size) + (is_last ? -8 : 8);
      up = std::clamp(y(point.figure.median) + (plot_.grows ? 17 : -9), top_ + 11,
                      top_ + height_ - 4);
    }
    put(R"(<text class="value" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)", across, up,
        !is_last   ? "start"
        : has_room ? "middle"
                   : "end",
        significant(point.figure.median));
  }

  const Plot& plot_;
  std::vector<Plot::Point> points_;
  double left_;
  double top_;
  double width_;
  double height_;
  Axis across_;
  Axis up_;
  std::string svg_;
};

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

}  // namespace hvdrun::scale
