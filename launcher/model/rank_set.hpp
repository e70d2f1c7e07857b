// A set of ranks as users write it: "0,4-7". A value, for one thread at a time.
#pragma once

#include "base/result.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdrun {

class RankSet {
 public:
  // Reads "0,4-7", with inclusive ranges. Errors (kExitUsage) name the part that is wrong.
  static Result<RankSet> parse(std::string_view text);

  void add(int first, int last);  // both inclusive
  bool contains(int rank) const;
  bool empty() const { return ranges_.empty(); }
  int lowest() const { return ranges_.front().first; }   // the set must not be empty
  int highest() const { return ranges_.back().second; }  // the set must not be empty

  // Returns the shortest form: "0-1,3".
  std::string to_string() const;

 private:
  std::vector<std::pair<int, int>> ranges_;  // sorted, disjoint, not adjacent; inclusive
};

}  // namespace hvdrun
