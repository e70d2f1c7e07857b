// Finds the error with which the last hvdrun in the output of a job ended. A script that continues
// after it ends with another code, and SLURM calls the job completed. A plain value of one thread;
// it cannot fail.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

class SeenFailure {
 public:
  // Takes the output in parts of any size.
  void take(std::string_view bytes);

  // Returns "rank 1 on n1 failed: exit code 3 (pid 12, after 3 s)"; "" if no hvdrun has failed, or
  // a later one has succeeded.
  const std::string& text() const { return text_; }

 private:
  void take_line();

  std::string line_;  // the line that is not complete yet, at most kLongest of it
  std::string text_;
};

}  // namespace hvdrun
