// A set of ranks as users write it: "0,4-7", "last". A value, for one thread. Wrong text is an
// error.
#pragma once

#include "base/result.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdrun {

class RankSet {
 public:
  // Reads "0,4-7", with inclusive ranges. "last", or -1, is the last rank of the job, -2 the one
  // before. Errors (kExitUsage) name the part that is wrong.
  static Result<RankSet> parse(std::string_view text);

  // Gives the ranks that are counted from the last one their numbers. Call it before contains(),
  // lowest() and highest(). Error (kExitUsage): a job of this size has no such rank.
  Result<void> settle(int size);

  void add(int first, int last);  // both inclusive
  bool contains(int rank) const;
  bool empty() const { return ranges_.empty() && from_last_.empty(); }
  bool needs_size() const { return !from_last_.empty(); }
  int lowest() const { return ranges_.front().first; }   // the set must not be empty
  int highest() const { return ranges_.back().second; }  // the set must not be empty

  // Returns the shortest form: "0-1,3".
  std::string to_string() const;

 private:
  std::vector<std::pair<int, int>> ranges_;     // sorted, disjoint, not adjacent; inclusive
  std::vector<std::pair<int, int>> from_last_;  // until settle(): the second number is negative
};

// Reads one rank: a number, "last" or -1. Error (kExitUsage): it is something else.
Result<int> parse_rank(std::string_view text);

// Returns a rank's number in a job of this size; -1 is the last one. Error
// (kExitUsage): there is no such rank before the first.
Result<int> settled_rank(int rank, int size);

}  // namespace hvdrun
