// Pictures of a scaling study as SVG: plots over the number of ranks or devices. Pure functions.
#pragma once

#include "commands/scale_measure.hpp"
#include "commands/scale_summary.hpp"

#include <functional>
#include <string>
#include <vector>

namespace hvdrun::scale {

struct Plot {
  struct Point {
    int size = 1;
    Figure figure;
  };

  std::string title;          // of the upright axis: "Time of an epoch"
  std::string unit;           // of the upright axis: "seconds"
  std::string sizes;          // of the other axis: "ranks"
  std::vector<Point> points;  // by size, ascending; values that are not finite are left out
  std::function<double(double)> ideal;  // the value of perfect scaling at a size
  bool grows = true;                    // perfect scaling makes the values grow with the size
};

// Draws a plot into a box of `width` by `height` with its upper left corner at `left`, `top`.
// Returns elements of SVG. Their classes are those of the style in scale_plot.cpp.
std::string draw_plot(const Plot& plot, double left, double top, double width, double height);

// Returns the picture of a study as a complete SVG file: time of an epoch, samples per second and
// speed-up, each with the ideal. It is light or dark as the reader's system is. Its text can be
// selected.
std::string study_svg(const Summary& summary);

// Returns the same for an HTML page: one picture for each plot. On a narrow screen they are below
// each other.
std::string study_plots(const Summary& summary);

}  // namespace hvdrun::scale
