// Several measurements of one thing as one figure. Pure functions, for any thread.
#pragma once

#include <optional>
#include <vector>

namespace hvdrun::scale {

// Returns the median: of an even number of values, the mean of the two in the middle. Returns
// nullopt for no values, and NaN if one of them is NaN.
std::optional<double> median(std::vector<double> values);

struct Figure {
  double median = 0;
  double least = 0;
  double most = 0;
  int count = 0;  // of the values

  double spread() const { return most - least; }
};

// Returns nullopt for no values. If one of them is NaN, all members but `count` are NaN.
std::optional<Figure> figure_of(const std::vector<double>& values);

}  // namespace hvdrun::scale
