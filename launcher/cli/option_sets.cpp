#include "cli/option_sets.hpp"

#include "cli/batch_options.hpp"
#include "cli/option_table.hpp"

#include <algorithm>
#include <string>

namespace hvdrun::cli {

const OptionSet& run_options() {
  static const OptionSet options{option_table()};
  return options;
}

const OptionSet& batch_options() {
  static const OptionSet options{batch_option_table(), option_table()};
  return options;
}

const OptionSet& all_options() {
  return batch_options();
}

const Option* find_option_by_spelling(std::string_view spelling, const OptionSet& options) {
  if (spelling.empty()) return nullptr;
  for (const auto table : options)
    for (const auto& option : table)
      for (const auto known : option.spellings)
        if (known == spelling) return &option;
  return nullptr;
}

const Option* find_option_by_name(std::string_view name, const OptionSet& options) {
  for (const auto table : options)
    for (const auto& option : table)
      if (option.name == name) return &option;
  return nullptr;
}

const Option* find_setting(std::string_view key) {
  std::string name(key);
  std::replace(name.begin(), name.end(), '_', '-');
  const Option* found = find_option_by_name(name, all_options());
  for (const auto* dashes : {"--", "-"})
    if (found == nullptr) found = find_option_by_spelling(dashes + name, all_options());
  return found != nullptr && is_setting(*found) ? found : nullptr;
}

std::vector<std::string_view> setting_names() {
  std::vector<std::string_view> names;
  for (const auto table : all_options())
    for (const auto& option : table)
      if (is_setting(option)) names.push_back(option.name);
  return names;
}

}  // namespace hvdrun::cli
