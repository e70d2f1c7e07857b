#include "cli/gather_settings.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdrun::cli {
namespace {

std::vector<std::string> config_files_named(const std::vector<ParsedOption>& uses) {
  std::vector<std::string> files;
  for (const auto& use : uses)
    if (use.option->kind == ValueKind::config_file) files.push_back(use.value);
  return files;
}

// Returns the command line's settings; --verbose --verbose is one setting of 2.
std::vector<Setting> settings_of(const std::vector<ParsedOption>& uses) {
  std::vector<Setting> settings;
  const ParsedOption* plural = nullptr;
  int count = 0;
  for (const auto& use : uses) {
    if (use.option->kind == ValueKind::count) {
      plural = &use;
      ++count;
    } else if (use.option->kind != ValueKind::config_file) {
      settings.push_back({use.option, use.value, "command line", use.spelling});
    }
  }
  if (plural != nullptr)
    settings.push_back({plural->option, std::to_string(count), "command line", plural->spelling});
  return settings;
}

// Notes the hosts and numbers of ranks that count no more, because another one comes later.
void note_overridden(const std::vector<Setting>& settings, std::vector<std::string>& notes) {
  constexpr std::array kNames = {"num-proc", "hosts", "hostfile", "nnodes", "ranks-per-host"};
  for (auto at = settings.begin(); at != settings.end(); ++at) {
    if (std::ranges::count(kNames, std::string_view(at->option->name)) == 0) continue;
    const auto later = std::find_if(at + 1, settings.end(), [&](const Setting& other) {
      return other.option == at->option && other.value != at->value;
    });
    if (later != settings.end())
      notes.push_back(at->named + " " + at->value + " has no effect: " + later->named + " " +
                      later->value + " comes later");
  }
}

// Moves -H after --hostfile, so that it wins if one place has both, in any order. A later place
// overrides both.
std::vector<Setting> hosts_last(std::vector<Setting> settings, std::vector<std::string>& notes) {
  const auto named = [](std::string_view name) {
    return [name](const Setting& setting) { return setting.option->name == name; };
  };
  const auto hosts =
      std::stable_partition(settings.begin(), settings.end(), std::not_fn(named("hosts")));
  const auto file = std::find_if(settings.begin(), hosts, named("hostfile"));
  if (file != hosts && hosts != settings.end())
    notes.push_back(file->named + " has no effect: " + hosts->named + " names the hosts");
  return settings;
}

}  // namespace

Result<GatheredSettings> gather_settings(const std::vector<ParsedOption>& uses,
                                         const Environment& environment,
                                         const std::filesystem::path& site_config_file) {
  GatheredSettings gathered;
  gathered.sources = config_sources(site_config_file, environment, config_files_named(uses));
  for (auto& source : gathered.sources) {
    HVD_TRY(auto config, read_config_source(source));
    for (auto& setting : hosts_last(std::move(config.settings), gathered.notes))
      gathered.settings.push_back(std::move(setting));
    std::move(config.notes.begin(), config.notes.end(), std::back_inserter(gathered.notes));
  }
  auto typed = settings_of(uses);
  note_overridden(typed, gathered.notes);
  for (auto& setting : hosts_last(std::move(typed), gathered.notes))
    gathered.settings.push_back(std::move(setting));
  return gathered;
}

}  // namespace hvdrun::cli
