// Several measurements of one thing as one figure.
#pragma once

#include <optional>
#include <vector>

namespace hvdrun::scale {

// The median: of an even number, the mean of the two in the middle. None of none; NaN when one of
// them is.
std::optional<double> median(std::vector<double> values);

struct Figure {
  double median = 0;
  double least = 0;
  double most = 0;
  int count = 0;

  double spread() const { return most - least; }
};

// None of none. With a NaN among them, NaN all through.
std::optional<Figure> figure_of(const std::vector<double>& values);

}  // namespace hvdrun::scale
