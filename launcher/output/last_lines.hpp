// The last lines that a stream printed, for the failure report. Cheap: of a long chunk it looks at
// the end only. A plain value; nothing fails.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Keeps at most kLines lines, each cut to kLength bytes.
class LastLines {
 public:
  static constexpr std::size_t kLines = 20;
  static constexpr std::size_t kLength = 4096;

  void add(std::string_view bytes);

  // Returns the lines without newlines, oldest first; an unfinished line is the last. Of a line
  // that overwrote itself with
  // "\r" it returns the last text.
  std::vector<std::string> lines() const;

 private:
  void extend(std::string_view piece);
  void finish(std::string_view piece);

  std::vector<std::string> ring_;  // grows to kLines; then next_ is the oldest
  std::size_t next_ = 0;
  std::string unfinished_;
  bool after_return_ = false;  // the last byte was "\r": the next text overwrites unfinished_
};

}  // namespace hvdrun
