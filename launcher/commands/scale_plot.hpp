// Numbers as people read them.
#pragma once

#include "commands/scale_measure.hpp"
#include "commands/scale_summary.hpp"

#include <functional>
#include <string>
#include <vector>

namespace hvdrun::scale {

// Three significant digits or more, never with an exponent where it can be done without: "0.0312",
// "1.94", "13063". "nan" and "inf" as they are.
std::string significant(double value);

// "0.213 s".
std::string seconds_text(double seconds);

// "97 %", of a fraction.
std::string percent_text(double fraction);

// One axis of a plot: where a value lies, and which values are named.

class Axis {
 public:
  // From 0 to a round number that is not below `most`, in equal steps.
  static Axis from_zero(double most);
  // From `least` to `most` with room at both ends. Logarithmic where they are far apart, so that
  // sizes of 1, 2, 4, … 64 lie evenly.
  static Axis between(double least, double most);
  // Logarithmic, from a round number to another one: `least` and `most`, both above 0, lie within.
  static Axis logarithmic(double least, double most);

  // Where a value lies: 0 at the axis' beginning, 1 at its end.
  double place(double value) const;
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  Axis(double begin, double end, bool logarithmic)
      : begin_(begin), end_(end), logarithmic_(logarithmic) {}

  double begin_;
  double end_;
  bool logarithmic_;
  std::vector<double> ticks_;
};

// Whether sizes from `least` to `most` are told apart only on a logarithmic axis.
bool is_wide(double least, double most);

// One plot over the number of ranks, as a piece of SVG.

struct Plot {
  struct Point {
    int size = 1;
    Figure figure;
  };

  std::string title;                    // of the upright axis: "Time of an epoch"
  std::string unit;                     // likewise: "seconds"
  std::vector<Point> points;            // by size, ascending; what is not finite is left out
  std::function<double(double)> ideal;  // what perfect scaling would give at a size
  bool grows = true;                    // with the ranks, where it is well
};

// Fills a box of `width` by `height` whose upper left corner is at `left`, `top`. The classes of
// the elements are those of the style in scale_plot.cpp.
std::string draw_plot(const Plot& plot, double left, double top, double width, double height);

// The picture of a study: time of an epoch, samples a second and speed-up, each beside the ideal.

// A whole SVG file that needs nothing else, light or dark as the reader's system is. Its text can
// be selected.
std::string study_svg(const Summary& summary);

// The same for a page of HTML: a picture for each plot, which stand below each other where the
// screen is narrow.
std::string study_plots(const Summary& summary);

}  // namespace hvdrun::scale
