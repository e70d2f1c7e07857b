// A set of ranks as users write it: "0,4-7".
#pragma once

#include "base/result.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdrun {

class RankSet {
 public:
  // Reads "0,4-7". Errors name the part that is wrong. Ranges are inclusive.
  static Result<RankSet> parse(std::string_view text);

  void add(int first, int last);
  bool contains(int rank) const;
  bool empty() const { return ranges_.empty(); }
  int lowest() const { return ranges_.front().first; }   // of a set that is not empty
  int highest() const { return ranges_.back().second; }  // likewise

  // The shortest form: "0-1,3".
  std::string to_string() const;

 private:
  std::vector<std::pair<int, int>> ranges_;  // sorted, disjoint, not adjacent; inclusive
};

}  // namespace hvdrun
