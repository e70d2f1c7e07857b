// One axis of a plot: where a value lies, and which values are named.
#pragma once

#include <vector>

namespace hvdrun::scale {

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

}  // namespace hvdrun::scale
