// One plot over the number of ranks, as a piece of SVG.
#pragma once

#include "scale/statistics.hpp"

#include <functional>
#include <string>
#include <vector>

namespace hvdrun::scale {

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
// the elements are those of the style in chart.cpp.
std::string draw_plot(const Plot& plot, double left, double top, double width, double height);

}  // namespace hvdrun::scale
