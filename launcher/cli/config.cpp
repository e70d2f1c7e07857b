#include "cli/config.hpp"

#include "base/files.hpp"
#include "cli/config_json.hpp"
#include "cli/foreign_options.hpp"
#include "cli/horovod_config.hpp"
#include "cli/option_sets.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace hvdrun::cli {
namespace {

// Bytes: far more than any config file. Keeps from reading a data file or /dev/zero.
constexpr std::size_t kLargestFile = 1 << 20;

std::filesystem::path user_config_file(const Environment& environment) {
  const auto folder = user_config_folder(environment);
  return folder.empty() ? folder : folder / "config.json";
}

// Reads the file. Returns nullopt for an optional file that is absent, or that this user may not
// read.
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
      return refuse(entry.line, quote(entry.key) + " cannot be in a config file");
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

  // Handles a key that is not an option of hvdrun: one of Horovod's, or a mistake.
  Result<void> take_foreign(const JsonEntry& entry) {
    const auto* foreign = find_foreign_option("--" + entry.key);
    if (foreign != nullptr && foreign->kind == ForeignOption::Kind::accepted) {
      result_.notes.push_back(at(entry.line) + ": " + quote(entry.key) +
                              " has no effect: " + std::string(foreign->text));
      return {};
    }
    if (foreign != nullptr && foreign->kind == ForeignOption::Kind::refused)
      return refuse(entry.line, refusal_of(*foreign, quote(entry.key)));
    const auto* const same = find_setting(entry.key);
    const auto nearest = same != nullptr ? same->name : nearest_name(entry.key, setting_names());
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
  if (!text) {
    ConfigSettings none;
    if (std::error_code error; std::filesystem::exists(source.file, error))
      none.notes.push_back("the config file " + source.file.string() +
                           " is not used: you may not read it");
    return none;
  }
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
