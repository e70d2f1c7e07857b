#include "cli/explain.hpp"

#include "common/text.hpp"
#include "model/host_request.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace hvdrun::cli {
namespace {

std::string state_of(const ConfigSource& source) {
  if (source.file.empty()) return "not set";
  return source.file.string() + (source.was_read ? "" : " (does not exist)");
}

void append_sources(std::string& out, const std::vector<ConfigSource>& sources) {
  out += "Settings come from these places; each overrides the ones before it:\n";
  int number = 0;
  out += fmt::format("  {}. {:<14} {}\n", ++number, "default", "built-in defaults");
  for (const auto& source : sources)
    out += fmt::format("  {}. {:<14} {}\n", ++number, source.title, state_of(source));
  out += fmt::format("  {}. {}\n\n", ++number, "command line");
}

// Returns a list of hosts, folded if it is long: "n[1-64]:8".
std::string fold_list(std::string_view value) {
  constexpr std::size_t kLongestInFull = 48;
  if (value.size() <= kLongestInFull) return quote_if_needed(value);
  const auto requests = parse_host_requests(value, "");
  return quote_if_needed(requests ? fold_host_requests(*requests) : value);
}

std::string value_of(const Setting& setting) {
  const auto name = setting.option->name;
  if (name == "hosts" || name == "include" || name == "exclude") return fold_list(setting.value);
  if (setting.option->kind != ValueKind::environment) return quote_if_needed(setting.value);
  const auto equals = setting.value.find('=');
  return equals == std::string::npos ? "(passed on)"
                                     : quote_if_needed(setting.value.substr(equals + 1));
}

struct Row {
  std::string name;
  std::string value;
  std::string source;
};

// Appends the settings of one name: the one that applies, then those that it overrides.
void append_setting(std::vector<Row>& rows, const std::vector<const Setting*>& history) {
  const auto& last = *history.back();
  rows.push_back({override_key(last), value_of(last), last.source});
  for (auto earlier = history.rbegin() + 1; earlier != history.rend(); ++earlier)
    rows.push_back({"  overrides", value_of(**earlier), (*earlier)->source});
}

std::vector<std::vector<const Setting*>> histories_of(const Option& option,
                                                      const std::vector<Setting>& settings) {
  std::vector<std::vector<const Setting*>> histories;
  for (const auto& setting : settings) {
    if (setting.option != &option) continue;
    const auto known = std::find_if(histories.begin(), histories.end(), [&](const auto& history) {
      return override_key(*history.front()) == override_key(setting);
    });
    if (known != histories.end()) {
      known->push_back(&setting);
    } else {
      histories.push_back({&setting});
    }
  }
  return histories;
}

void append_option(std::vector<Row>& rows, const Option& option,
                   const std::vector<Setting>& settings) {
  if (!is_setting(option)) return;
  const auto histories = histories_of(option, settings);
  for (const auto& history : histories) append_setting(rows, history);
  if (histories.empty() && !option.default_value.empty())
    rows.push_back({std::string(option.name), std::string(option.default_value), "default"});
}

// The column of values is not made wider than this. A longer value shifts only its source.
constexpr std::size_t kWidestValue = 40;

std::string aligned(const std::vector<Row>& rows) {
  std::size_t name_width = 0;
  std::size_t value_width = 0;
  for (const auto& row : rows) {
    name_width = std::max(name_width, row.name.size());
    if (row.value.size() <= kWidestValue) value_width = std::max(value_width, row.value.size());
  }
  std::string out;
  for (const auto& row : rows)
    out += fmt::format("  {:<{}}  {:<{}}  {}\n", row.name, name_width, row.value, value_width,
                       row.source);
  return out;
}

}  // namespace

std::string explain_text(const Explanation& explanation) {
  std::string out;
  append_sources(out, explanation.sources);
  std::vector<Row> rows;
  for (const auto table : explanation.options)
    for (const auto& option : table) append_option(rows, option, explanation.settings);
  out += aligned(rows);
  out += "\nprogram:";
  if (explanation.command.empty()) return out + " none given\n";
  for (const auto& word : explanation.command) out += " " + quote_if_needed(word);
  return out + "\n         " + explanation.program + "\n";
}

}  // namespace hvdrun::cli
