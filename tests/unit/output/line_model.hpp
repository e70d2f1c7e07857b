// A simple, slow model of LineAssembler: which lines a stream's bytes become if no timeout expires.
// The console's tests and the fuzzer compare with it.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

class LineModel {
 public:
  // Returns the lines that must be shown for all bytes of a stream.
  static std::vector<std::string> lines(std::string_view bytes) {
    LineModel model;
    while (!bytes.empty()) {
      const std::size_t newline = bytes.find('\n');
      const std::string_view body = bytes.substr(0, newline);
      bytes.remove_prefix(std::min(bytes.size(), body.size() + 1));
      model.take(body, newline != std::string_view::npos);
    }
    model.end(false);
    return model.lines_;
  }

 private:
  static constexpr std::string_view kMoveUp = "\x1b[A";
  static constexpr int kMostRows = 64;

  void take(std::string_view body, bool newline) {
    for (const char byte : body) {
      if (byte == '\r')
        returned_ = true;
      else
        add(byte);
    }
    if (returned_ && (!newline || text_.ends_with(kMoveUp))) split();
    if (!newline) return;
    if (cursor_ == 0) return end(true);
    --cursor_;
    returned_ = true;
  }

  void add(char byte) {
    if (returned_) {
      split();
      begin();
      overwritten_ = true;
    }
    returned_ = false;
    text_ += byte;
    if (overwritten_) split();
  }

  // Moves up, where the text says so.
  void split() {
    const bool returned = returned_;
    for (auto at = text_.find(kMoveUp); at != std::string::npos; at = text_.find(kMoveUp)) {
      const std::string after = text_.substr(at + kMoveUp.size());
      text_.resize(at);
      cursor_ = std::min(cursor_ + 1, kMostRows);
      overwritten_ = returned_ = moved_ = true;
      if (after.empty()) continue;
      begin();
      text_ = after;
      returned_ = returned;
    }
  }

  void begin() {
    if (!text_.empty()) rows_[row_] = text_;
    row_ = cursor_;
    text_.clear();
  }

  void end(bool newline) {
    if (!moved_) {
      if (newline || !text_.empty())
        lines_.push_back(text_ + (newline && returned_ ? "\r\n" : "\n"));
    } else {
      if (!text_.empty()) rows_[row_] = text_;
      for (const auto& [row, text] : rows_)
        if (text.find_first_not_of(' ') != std::string::npos) lines_.push_back(text + "\n");
    }
    rows_.clear();
    text_.clear();
    cursor_ = row_ = 0;
    returned_ = moved_ = overwritten_ = false;
  }

  std::vector<std::string> lines_;
  std::map<int, std::string, std::greater<>> rows_;
  std::string text_;
  int cursor_ = 0;
  int row_ = 0;
  bool returned_ = false;
  bool moved_ = false;
  bool overwritten_ = false;
};

}  // namespace hvdrun
