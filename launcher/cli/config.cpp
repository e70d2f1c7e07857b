#include "cli/config.hpp"

#include "base/files.hpp"
#include "cli/horovod.hpp"
#include "cli/option_sets.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>

#include <nlohmann/json.hpp>

namespace hvdrun::cli {

std::string override_key(const Setting& setting) {
  std::string key(setting.option->name);
  if (setting.option->kind == ValueKind::environment)
    key += " " + setting.value.substr(0, setting.value.find('='));
  if (key == "for") key += " " + setting.value;  // each adds to those before it
  return key;
}

Result<void> apply_settings(const std::vector<Setting>& settings, JobSpec& job, BatchSpec* batch) {
  for (const auto& setting : settings) {
    // Values end in system calls and environments, where text ends at the first NUL.
    if (setting.value.find('\0') != std::string::npos)
      return fail(setting.named + " cannot hold a NUL character", kExitUsage);
    const auto& option = *setting.option;
    Result<void> applied;
    if (option.apply != nullptr) {
      applied = option.apply(job, setting.value);
    } else if (batch != nullptr) {
      applied = option.apply_batch(*batch, setting.value);
    }
    if (!applied) return fail(setting.named + " " + applied.error().message, kExitUsage);
  }
  return {};
}

namespace {

using Json = nlohmann::json;

// Walks over the text and counts its lines. nlohmann's events carry no position; but when one
// comes, the lexer has read exactly to the end of its token (numbers: one character past it, which
// cannot be the key that a line is asked for).
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

// "syntax error while parsing value - unexpected …; expected …" of nlohmann's longer text.
std::string reason_of(const std::string& what) {
  const auto dash = what.find(" - ");
  const auto start = dash == std::string::npos ? what.rfind("] ") + 2 : dash + 3;
  const auto quoted = quote(std::string_view(what).substr(std::min(start, what.size())));
  return quoted.substr(1, quoted.size() - 2);
}

// Takes nlohmann's events (its SAX interface); false ends the reading.
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
    error_ = Error{name_ + ":" + std::to_string(line) + ":" + std::to_string(column) +
                       ": not valid JSON: " + reason_of(error.what()) +
                       (may_be_yaml ? "; a YAML file of horovodrun's has to end in .yaml" : ""),
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

// Far more than any config file; a bound against reading a data file, or /dev/zero.
constexpr std::size_t kLargestFile = 1 << 20;

std::filesystem::path user_config_file(const Environment& environment) {
  const auto folder = user_config_folder(environment);
  return folder.empty() ? folder : folder / "config.json";
}

// The file's bytes; none when it is not there and need not be.
Result<std::optional<std::string>> read_text(const ConfigSource& source) {
  const std::string cannot = "cannot read the config file " + source.file.string();
  if (!source.must_exist) return read_file_if_there(source.file, kLargestFile, cannot);
  HVD_TRY(auto text, read_file(source.file, kLargestFile, cannot));
  return text;
}

std::string_view wanted_type(ValueKind kind) {
  switch (kind) {
    case ValueKind::flag:
      return "true or false";
    case ValueKind::count:
    case ValueKind::number:
      return "a whole number";
    case ValueKind::decimal:
      return "a number";
    case ValueKind::duration:
      return "a number of seconds, or a string such as \"500ms\"";
    case ValueKind::word:
      return "a string";
    case ValueKind::word_number:
      return "a string or a number";
    case ValueKind::list:
      return "a string, or an array of strings";
    case ValueKind::environment:
      return "an object such as {\"NAME\": \"VALUE\", \"NAME2\": null}, or an array of strings";
    case ValueKind::config_file:
    case ValueKind::action:
      break;
  }
  return "on the command line";
}

bool fits(ValueKind kind, JsonType type) {
  const bool is_integer = type == JsonType::integer;
  const bool is_string = type == JsonType::string;
  switch (kind) {
    case ValueKind::flag:
      return type == JsonType::boolean;
    case ValueKind::count:
      return type == JsonType::boolean || is_integer;
    case ValueKind::number:
      return is_integer;
    case ValueKind::decimal:
      return is_integer || type == JsonType::real;
    case ValueKind::duration:
      return is_integer || is_string || type == JsonType::real;
    case ValueKind::word:
      return is_string;
    case ValueKind::word_number:
    case ValueKind::list:
      return is_string || is_integer;
    default:
      return false;
  }
}

// Reads the entries of one file.
class ConfigReader {
 public:
  explicit ConfigReader(const std::string& name) : name_(name) {}

  Result<void> take(const JsonEntry& entry) {
    const Option* option = find_option_by_name(entry.key, all_options());
    if (option == nullptr) return take_foreign(entry);
    if (!is_setting(*option))
      return refuse(entry.line, quote(entry.key) + " cannot stand in a config file");
    if (option->kind == ValueKind::environment) return take_environment(*option, entry);
    if (option->kind == ValueKind::list && entry.type == JsonType::array)
      return take_list(*option, entry);
    if (!fits(option->kind, entry.type)) return wrong_type(*option, entry.line);
    std::string value = entry.text;
    if (option->kind == ValueKind::count && entry.type == JsonType::boolean)
      value = entry.text == "true" ? "1" : "0";
    add(*option, std::move(value), entry.line);
    return {};
  }

  ConfigSettings finish() { return std::move(result_); }

 private:
  Result<void> take_list(const Option& option, const JsonEntry& entry) {
    std::string joined;
    for (const auto& item : entry.items) {
      if (!fits(option.kind, item.type)) return wrong_type(option, item.line);
      joined += (joined.empty() ? "" : ",") + item.text;
    }
    add(option, std::move(joined), entry.line);
    return {};
  }

  Result<void> take_environment(const Option& option, const JsonEntry& entry) {
    const bool is_object = entry.type == JsonType::object;
    if (!is_object && entry.type != JsonType::array) return wrong_type(option, entry.line);
    for (const auto& item : entry.items) {
      const bool is_string = item.type == JsonType::string;
      if (!is_string && !(is_object && item.type == JsonType::null))
        return wrong_type(option, item.line);
      if (is_object && item.key.find('=') != std::string::npos)
        return refuse(item.line, quote(item.key) + " cannot be the name of a variable");
      std::string value = is_object ? item.key : item.text;
      if (is_object && is_string) value += "=" + item.text;
      add(option, std::move(value), item.line);
    }
    return {};
  }

  // A key that is no option of ours: one of Horovod's, or a mistake.
  Result<void> take_foreign(const JsonEntry& entry) {
    const auto* horovods = find_horovod_option("--" + entry.key);
    if (horovods != nullptr && horovods->accepted) {
      result_.notes.push_back(at(entry.line) + ": " + quote(entry.key) +
                              " has no effect: " + std::string(horovods->reason));
      return {};
    }
    if (horovods != nullptr) return refuse(entry.line, refusal_of(*horovods, quote(entry.key)));
    std::vector<std::string_view> known;
    for (const auto table : all_options())
      for (const auto& option : table)
        if (is_setting(option)) known.push_back(option.name);
    const auto nearest = nearest_name(entry.key, known);
    const std::string hint = nearest.empty() ? "" : "; did you mean " + quote(nearest) + "?";
    return refuse(entry.line, "unknown key " + quote(entry.key) + hint);
  }

  Result<void> wrong_type(const Option& option, int line) const {
    return refuse(line, quote(option.name) + " must be " + std::string(wanted_type(option.kind)));
  }

  Result<void> refuse(int line, const std::string& what) const {
    return fail(at(line) + ": " + what, kExitUsage);
  }

  std::string at(int line) const { return name_ + ":" + std::to_string(line); }

  void add(const Option& option, std::string value, int line) {
    const auto where = at(line);
    result_.settings.push_back(
        {&option, std::move(value), where, where + ": " + quote(option.name)});
  }

  const std::string& name_;
  ConfigSettings result_;
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

std::vector<ConfigSource> config_sources(const std::filesystem::path& site_file,
                                         const Environment& environment,
                                         const std::vector<std::string>& command_line_files) {
  std::vector<ConfigSource> sources;
  sources.push_back({"site", site_file, false, false});
  sources.push_back({"user", user_config_file(environment), false, false});
  const auto* named = find_variable(environment, "HVDRUN_CONFIG");
  sources.push_back({"HVDRUN_CONFIG", named == nullptr ? "" : *named, true, false});
  for (const auto& file : command_line_files)
    sources.push_back({"--config-file", file, true, false});
  return sources;
}

Result<ConfigSettings> read_config_source(ConfigSource& source) {
  if (source.file.empty()) return ConfigSettings{};
  HVD_TRY(const auto text, read_text(source));
  if (!text) return ConfigSettings{};
  source.was_read = true;
  return parse_config(*text, source.file.string());
}

Result<ConfigSettings> parse_config(std::string_view text, const std::string& name) {
  HorovodConfig config;
  if (is_horovod_config(name)) {
    HVD_TRY(config, read_horovod_config(text, name));
  } else {
    HVD_TRY(config.entries, read_config_json(text, name));
  }
  ConfigReader reader(name);
  for (const auto& entry : config.entries) HVD_CHECK(reader.take(entry));
  auto settings = reader.finish();
  std::move(config.notes.begin(), config.notes.end(), std::back_inserter(settings.notes));
  return settings;
}

}  // namespace hvdrun::cli
