// One axis of a plot: where a value is on it, and which values have a label. A plain value.
#pragma once

#include <vector>

namespace hvdrun::scale {

class Axis {
 public:
  // Makes an axis from 0 to a round number of at least `most`, in equal steps.
  static Axis from_zero(double most);
  // Makes an axis from `least` to `most` with room at both ends. It is logarithmic if is_wide(), so
  // that sizes of 1, 2, 4, … 64 have equal distances.
  static Axis between(double least, double most);
  // Makes a logarithmic axis between two round numbers that has `least` and `most`, both above 0,
  // within.
  static Axis logarithmic(double least, double most);

  // Returns the place of a value: 0 at the axis' beginning, 1 at its end.
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

// Returns whether sizes from `least` to `most` need a logarithmic axis to be distinguishable.
bool is_wide(double least, double most);

}  // namespace hvdrun::scale
