#include "cli/config_json.hpp"

#include "common/text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace hvdrun::cli {
namespace {

using Json = nlohmann::json;

// Walks over the text and counts its lines. nlohmann's events have no position. But at each event
// the lexer has read exactly to the end of its token. (For a number it has read one more character,
// but lines are needed only for keys.)
class LineCountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  LineCountingIterator(const char* at, int* line) : at_(at), line_(line) {}

  reference operator*() const { return *at_; }
  LineCountingIterator& operator++() {
    if (*at_ == '\n') ++*line_;
    ++at_;
    return *this;
  }
  LineCountingIterator operator++(int) {
    auto before = *this;
    ++*this;
    return before;
  }
  bool operator==(const LineCountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const LineCountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  int* line_;
};

// Returns the reason in nlohmann's longer text: "unexpected …; expected …".
std::string reason_of(const std::string& what) {
  const auto dash = what.find(" - ");
  const auto start = dash == std::string::npos ? what.rfind("] ") + 2 : dash + 3;
  const auto quoted = quote(std::string_view(what).substr(std::min(start, what.size())));
  return quoted.substr(1, quoted.size() - 2);
}

// Receives nlohmann's events (its SAX interface). A result of false ends the reading.
class EntryReader {
 public:
  EntryReader(std::string_view text, const std::string& name, const int* line)
      : text_(text), name_(name), line_(line) {}

  bool null() { return scalar(JsonType::null, "null"); }
  bool boolean(bool value) { return scalar(JsonType::boolean, value ? "true" : "false"); }
  bool number_integer(std::int64_t value) {
    return scalar(JsonType::integer, std::to_string(value));
  }
  bool number_unsigned(std::uint64_t value) {
    return scalar(JsonType::integer, std::to_string(value));
  }
  bool number_float(double, const std::string& text) { return scalar(JsonType::real, text); }
  bool string(std::string& value) { return scalar(JsonType::string, value); }
  bool binary(Json::binary_t&) { return refuse("holds binary data"); }

  bool start_object(std::size_t) { return open(JsonType::object); }
  bool start_array(std::size_t) { return open(JsonType::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    const bool is_inner = depth_ == 2;
    if (is_inner ? has_key(entries_.back().items, name) : has_key(entries_, name))
      return refuse("has " + quote(name) + " twice");
    if (is_inner) {
      key_ = name;
      return true;
    }
    entries_.push_back({});
    entries_.back().key = name;
    entries_.back().line = *line_;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const Json::exception& error) {
    const auto before = text_.substr(0, position > 0 ? position - 1 : 0);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const auto line_start = before.rfind('\n');
    const auto column =
        line_start == std::string_view::npos ? before.size() + 1 : before.size() - line_start;
    const bool may_be_yaml = text_.find_first_of("{[") == std::string_view::npos;
    error_ =
        Error{name_ + ":" + std::to_string(line) + ":" + std::to_string(column) +
                  ": not valid JSON: " + reason_of(error.what()) +
                  (may_be_yaml ? "; the name of a YAML file of horovodrun must end in .yaml" : ""),
              kExitUsage};
    return false;
  }

  Result<std::vector<JsonEntry>> take() {
    if (error_) return std::move(*error_);
    return std::move(entries_);
  }

 private:
  template <class Entries>
  static bool has_key(const Entries& entries, const std::string& key) {
    return std::any_of(entries.begin(), entries.end(),
                       [&](const auto& entry) { return entry.key == key; });
  }

  bool scalar(JsonType type, std::string text) {
    if (depth_ == 0) return refuse_top();
    if (depth_ == 1) {
      entries_.back().type = type;
      entries_.back().text = std::move(text);
    } else {
      entries_.back().items.push_back({key_, *line_, type, std::move(text)});
    }
    return true;
  }

  bool open(JsonType type) {
    if (depth_ == 0 && type != JsonType::object) return refuse_top();
    if (depth_ == 2) return refuse(quote(entries_.back().key) + " is nested too deep");
    if (depth_ == 1) entries_.back().type = type;
    ++depth_;
    key_.clear();
    return true;
  }

  bool close() {
    --depth_;
    return true;
  }

  bool refuse_top() { return refuse("must be an object, such as {\"num-proc\": 4}"); }

  bool refuse(const std::string& what) {
    error_ = Error{name_ + ":" + std::to_string(*line_) + ": " + what, kExitUsage};
    return false;
  }

  std::string_view text_;
  const std::string& name_;
  const int* line_;
  std::vector<JsonEntry> entries_;
  std::string key_;  // of the inner object's next value
  int depth_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Result<std::vector<JsonEntry>> read_config_json(std::string_view text, const std::string& name) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return fail(name + ": is empty; it must hold an object, such as {\"num-proc\": 4}", kExitUsage);
  int line = 1;
  EntryReader reader(text, name, &line);
  Json::sax_parse(LineCountingIterator(text.data(), &line),
                  LineCountingIterator(text.data() + text.size(), &line), &reader,
                  Json::input_format_t::json, /*strict=*/true, /*ignore_comments=*/true);
  return reader.take();
}

}  // namespace hvdrun::cli
