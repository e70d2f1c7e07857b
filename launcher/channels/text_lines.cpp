#include "channels/text_lines.hpp"

namespace hvdrun {

void TextLines::add(std::string_view text) {
  if (beginning_.size() < kMost) beginning_.append(text.substr(0, kMost - beginning_.size()));
  for (const char c : text) {
    if (c == '\r') continue;
    if (c == '\n')
      end();
    else if (line_.size() < kMost)
      line_ += c;
  }
}

void TextLines::end() {
  if (!line_.empty()) on_line_(std::exchange(line_, {}));
}

}  // namespace hvdrun
