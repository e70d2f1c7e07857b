#include "cli/setting.hpp"

#include <string>
#include <vector>

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

}  // namespace hvdrun::cli
