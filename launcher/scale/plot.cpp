#include "scale/plot.hpp"

#include "scale/axis.hpp"
#include "scale/markup.hpp"
#include "scale/numbers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace hvdrun::scale {
namespace {

// Around the plot's area, for what is written there.
constexpr double kLeft = 44;
constexpr double kRight = 14;
constexpr double kTop = 46;
constexpr double kBottom = 46;
constexpr double kTitle = 28;  // its line above the area, with room for a number below it
// Of the ideal line, which is a curve on some axes.
constexpr int kIdealSteps = 48;
// With more sizes their numbers would lie on each other.
constexpr std::size_t kMostLabels = 8;
// Of the numbers at the points, with room to spare.
constexpr double kDigitWidth = 7.5;

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
        left_, top_ - kTitle, escape_markup(plot_.title), escape_markup(plot_.unit));
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

  struct Box {
    double left, top, right, bottom;
  };

  // How much of the line through these places is in the box.
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

  // Beside its point, where the fewest lines are; below, rather than above, one that rises.
  void label(const Plot::Point& point) {
    const std::string text = significant(point.figure.median);
    const double width = kDigitWidth * static_cast<double>(text.size());
    const double above = y(point.figure.most) - 9;
    const double below = y(point.figure.least) + 17;
    const double at = x(point.size);
    double best_cost = std::numeric_limits<double>::infinity();
    double best_left = at;
    double best_up = above;
    double order = 0;
    for (const double up : plot_.grows ? std::array{below, above} : std::array{above, below})
      for (const double left : {at + 3, at - width / 2, at - width - 3}) {
        const Box box{left - 1, up - 10, left + width + 1, up + 2};
        const bool is_inside = box.left >= left_ - 2 && box.right <= left_ + width_ + kRight &&
                               box.top >= top_ - kTitle + 4 && box.bottom <= top_ + height_;
        const double cost =
            order + (is_inside ? 0 : 1e5) +
            1e3 * hits(box, [&](double across) { return height_of_line(across); }) +
            3 * hits(box, [&](double across) { return y(plot_.ideal(size_at(across))); });
        order += 0.1;
        if (cost >= best_cost) continue;
        best_cost = cost;
        best_left = left;
        best_up = up;
      }
    put(R"(<text class="value" x="{:.1f}" y="{:.1f}">{}</text>)", best_left, best_up, text);
  }

  // The size whose place is there.
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
