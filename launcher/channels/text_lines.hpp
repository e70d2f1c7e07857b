// Cuts the text that another process prints on stderr into lines as it arrives, and keeps its
// beginning to explain a failure. A plain value of one thread; it cannot fail.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace hvdrun {

// Returns whether the text has these words.
inline bool contains(std::string_view text, std::string_view words) {
  return text.find(words) != std::string_view::npos;
}

class TextLines {
 public:
  // Calls `on_line` with each line that is not empty, without its end.
  explicit TextLines(std::function<void(std::string)> on_line) : on_line_(std::move(on_line)) {}

  void add(std::string_view text);
  void end();  // ends a last line without newline

  const std::string& beginning() const { return beginning_; }  // at most 16 KiB

 private:
  static constexpr std::size_t kMost = 16u << 10;

  std::function<void(std::string)> on_line_;
  std::string beginning_;
  std::string line_;  // the line that is not complete yet
};

}  // namespace hvdrun
