// The last lines that a stream printed, for the failure report: at most kLines, each cut to kLength
// bytes. Cheap: of a long chunk only the end is looked at. A plain value.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

class LastLines {
 public:
  static constexpr std::size_t kLines = 20;
  static constexpr std::size_t kLength = 4096;

  void add(std::string_view bytes);

  // Oldest first, without newlines; an unfinished line is the last. Of a line that overwrote itself
  // with "\r", the last text.
  std::vector<std::string> lines() const;

 private:
  void extend(std::string_view piece);
  void finish(std::string_view piece);

  std::vector<std::string> ring_;  // grows to kLines, then next_ is the oldest
  std::size_t next_ = 0;
  std::string unfinished_;
  bool after_return_ = false;  // "\r" was its last byte: what follows overwrites it
};

}  // namespace hvdrun
