// What somebody prints on stderr, cut into lines as it comes, and kept for an explanation.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace hvdrun {

class TextLines {
 public:
  // Called with each line that is not empty, without its end.
  explicit TextLines(std::function<void(std::string)> on_line) : on_line_(std::move(on_line)) {}

  void add(std::string_view text);
  void end();  // a last line without newline is one, too

  const std::string& beginning() const { return beginning_; }  // 16 KB at most

 private:
  static constexpr std::size_t kMost = 16u << 10;

  std::function<void(std::string)> on_line_;
  std::string beginning_;
  std::string line_;  // that is not complete yet
};

}  // namespace hvdrun
