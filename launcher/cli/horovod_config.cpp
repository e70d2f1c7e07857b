#include "cli/horovod_config.hpp"

#include "base/is_one_of.hpp"
#include "cli/option_sets.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdrun::cli {
namespace {

struct Key {
  std::string_view section;
  std::string_view key;
  std::string_view option;  // of horovodrun, without dashes
};

// Source: horovodrun 0.28.1, horovod/runner/common/util/config_parser.py.
constexpr Key kKeys[] = {
    {"params", "fusion_threshold_mb", "fusion-threshold-mb"},
    {"params", "cycle_time_ms", "cycle-time-ms"},
    {"params", "cache_capacity", "cache-capacity"},
    {"params", "hierarchical_allreduce", "hierarchical-allreduce"},
    {"params", "hierarchical_allgather", "hierarchical-allgather"},
    {"params", "torus_allreduce", "torus-allreduce"},
    {"autotune", "enabled", "autotune"},
    {"autotune", "log_file", "autotune-log-file"},
    {"autotune", "warmup_samples", "autotune-warmup-samples"},
    {"autotune", "steps_per_sample", "autotune-steps-per-sample"},
    {"autotune", "bayes_opt_max_samples", "autotune-bayes-opt-max-samples"},
    {"autotune", "gaussian_process_noise", "autotune-gaussian-process-noise"},
    {"timeline", "filename", "timeline-filename"},
    {"timeline", "mark_cycles", "timeline-mark-cycles"},
    {"stall_check", "enabled", "stall-check"},
    {"stall_check", "warning_time_seconds", "stall-check-warning-time-seconds"},
    {"stall_check", "shutdown_time_seconds", "stall-check-shutdown-time-seconds"},
    {"library_options", "mpi_threads_disable", "mpi-threads-disable"},
    {"library_options", "num_nccl_streams", "num-nccl-streams"},
    {"library_options", "thread_affinity", "thread-affinity"},
    {"library_options", "gloo_timeout_seconds", "gloo-timeout-seconds"},
    {"logging", "level", "log-level"},
    {"logging", "with_timestamp", "log-with-timestamp"},
};

std::string with_underscores(std::string_view key) {
  std::string text(key);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

// Returns the line up to a "#" that begins a comment: at the start, or after a blank and outside of
// quotes.
std::string_view without_comment(std::string_view line) {
  char quote_mark = '\0';
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char c = line[at];
    const bool begins_word = at == 0 || line[at - 1] == ' ' || line[at - 1] == '\t';
    if (quote_mark != '\0') {
      if (c == quote_mark) quote_mark = '\0';
    } else if (begins_word && c == '#') {
      return line.substr(0, at);
    } else if (begins_word && (c == '"' || c == '\'')) {
      quote_mark = c;
    }
  }
  return line;
}

// Returns the text between quotes, or nullopt if YAML would give it another meaning.
std::optional<std::string_view> between_quotes(std::string_view text) {
  if (text.size() < 2 || text.front() != text.back()) return std::nullopt;
  const auto inner = text.substr(1, text.size() - 2);
  if (inner.find(text.front()) != std::string_view::npos) return std::nullopt;
  if (text.front() == '"' && inner.find('\\') != std::string_view::npos) return std::nullopt;
  return inner;
}

// Returns the type that YAML 1.1 gives to a scalar without quotes (yaml.org/type).
JsonType type_of(std::string_view text) {
  if (text.empty() || is_one_of(text, {"~", "null", "Null", "NULL"})) return JsonType::null;
  const auto digits = text.substr(text.front() == '-' || text.front() == '+' ? 1 : 0);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!digits.empty() && std::all_of(digits.begin(), digits.end(), is_digit))
    return JsonType::integer;
  const auto point = digits.find('.');
  if (digits.size() > 1 && point != std::string_view::npos &&
      std::all_of(digits.begin(), digits.end(), [&](char c) { return is_digit(c) || c == '.'; }) &&
      digits.find('.', point + 1) == std::string_view::npos)
    return JsonType::real;
  return JsonType::string;
}

std::optional<bool> truth_of(std::string_view text) {
  if (is_one_of(text, {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})) return true;
  if (is_one_of(text, {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}))
    return false;
  return std::nullopt;
}

// Reads the lines of one file.
class YamlReader {
 public:
  explicit YamlReader(const std::string& name) : name_(name) {}

  Result<void> take(std::string_view line) {
    ++line_;
    const auto text = without_comment(line);
    const auto words = trim(text);
    if (words.empty() || (words == "---" && config_.entries.empty() && section_.empty())) return {};
    const auto indent = text.find_first_not_of(' ');
    const auto colon = words.find(':');
    const bool has_key = colon != std::string_view::npos && colon > 0 &&
                         (colon + 1 == words.size() || words[colon + 1] == ' ');
    if (!has_key || text[indent] == '\t') return refuse(quote(words));
    const auto key = words.substr(0, colon);
    if (key.find_first_of("\"'{}[]&*!|>%@`?,# ") != std::string_view::npos || key.front() == '-')
      return refuse(quote(key));
    const auto value = trim(words.substr(colon + 1));
    if (indent == 0) return take_top(key, value);
    if (section_.empty() || (indent_ != 0 && indent != indent_)) return refuse(quote(words));
    indent_ = indent;
    return take_key(key, value);
  }

  HorovodConfig finish() { return std::move(config_); }

 private:
  Result<void> take_top(std::string_view key, std::string_view value) {
    section_.clear();
    indent_ = 0;
    if (value.empty()) {
      section_ = key;
      return {};
    }
    if (key != "controller") return take_setting(key, value);
    HVD_TRY(const auto controller, scalar(value));
    if (controller.text != "gloo" && controller.text != "mpi")
      return fail(at() + ": \"controller\" must be gloo or mpi", kExitUsage);
    return add(controller.text, {"", 0, JsonType::boolean, "true"});
  }

  // Takes a key outside of the sections: horovodrun has none, so it can be one of hvdrun.
  Result<void> take_setting(std::string_view key, std::string_view value) {
    HVD_TRY(auto read, scalar(value));
    if (key == "compute_environment" || key == "distributed_type")
      return fail(at() +
                      ": this is accelerate's config file: use --for accelerate, which reads it "
                      "from accelerate's folder or $ACCELERATE_CONFIG_FILE",
                  kExitUsage);
    const auto* const option = find_setting(key);
    if (option == nullptr) note_unknown(key, setting_names());
    if (option == nullptr || read.type == JsonType::null) return {};
    return add(option->name, std::move(read));
  }

  Result<void> take_key(std::string_view key, std::string_view value) {
    HVD_TRY(auto read, scalar(value));
    if (read.type == JsonType::null) return {};
    const auto known = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& entry) {
      return entry.section == section_ && entry.key == with_underscores(key);
    });
    if (known != std::end(kKeys)) return add(known->option, std::move(read));
    if (const auto* const option = find_setting(key); option != nullptr)
      return fail(at() + ": " + quote(key) + " is not a key of the section " + quote(section_) +
                      ": write " + quote(std::string(option->name) + ": " + std::string(value)) +
                      " at the beginning of a line",
                  kExitUsage);
    note_unknown(key, known_keys());
    return {};
  }

  // Returns the keys of the current section.
  std::vector<std::string_view> known_keys() const {
    std::vector<std::string_view> known;
    for (const auto& entry : kKeys)
      if (entry.section == section_) known.push_back(entry.key);
    return known;
  }

  void note_unknown(std::string_view key, const std::vector<std::string_view>& known) {
    const auto nearest = nearest_name(key, known);
    config_.notes.push_back(at() + ": " + quote(key) +
                            (nearest.empty()
                                 ? " has no effect: horovodrun does not know it either"
                                 : " has no effect; did you mean " + quote(nearest) + "?"));
  }

  Result<JsonScalar> scalar(std::string_view value) const {
    JsonScalar read;
    read.text = value;
    if (!value.empty() && (value.front() == '"' || value.front() == '\'')) {
      const auto inner = between_quotes(value);
      if (!inner) return refuse_value(value);
      read.type = JsonType::string;
      read.text = *inner;
      return read;
    }
    if (!value.empty() && std::string_view("{}[]&*!|>%@`?,").find(value.front()) != value.npos)
      return refuse_value(value);
    if (value == "-" || value.starts_with("- ") || value.find(": ") != value.npos)
      return refuse_value(value);
    read.type = type_of(value);
    if (const auto truth = truth_of(value)) {
      read.type = JsonType::boolean;
      read.text = *truth ? "true" : "false";
    }
    return read;
  }

  Result<void> add(std::string_view option, JsonScalar value) {
    const bool is_known = std::any_of(config_.entries.begin(), config_.entries.end(),
                                      [&](const JsonEntry& entry) { return entry.key == option; });
    if (is_known) return fail(at() + ": has " + quote(option) + " twice", kExitUsage);
    config_.entries.push_back({std::string(option), line_, value.type, std::move(value.text), {}});
    return {};
  }

  Result<void> refuse(const std::string& what) const {
    return fail(at() + ": cannot read " + what +
                    ": hvdrun reads only the YAML of Horovod's config files, sections with lines "
                    "of \"key: value\"; write anything else as JSON, such as {\"num-proc\": 4}, "
                    "into a file that ends in .json",
                kExitUsage);
  }

  Result<JsonScalar> refuse_value(std::string_view value) const {
    return refuse(quote(value)).error();
  }

  std::string at() const { return name_ + ":" + std::to_string(line_); }

  const std::string& name_;
  HorovodConfig config_;
  std::string section_;     // the current one
  std::size_t indent_ = 0;  // of its lines; 0: before the first one
  int line_ = 0;
};

}  // namespace

bool is_horovod_config(std::string_view name) {
  return name.ends_with(".yaml") || name.ends_with(".yml");
}

Result<HorovodConfig> read_horovod_config(std::string_view text, const std::string& name) {
  YamlReader reader(name);
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    HVD_CHECK(reader.take(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.finish();
}

}  // namespace hvdrun::cli
