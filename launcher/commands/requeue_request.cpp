#include "commands/requeue_request.hpp"

#include "base/severity.hpp"
#include "slurm/warning_signal.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

struct Given {
  std::string source;  // "--signal TERM@60", as the user gave it; empty: nothing gives it
  std::string value;
};

// Returns the last of sbatch's own arguments for this option: "--time=5", "-t5".
Given in_arguments(const BatchSpec& batch, std::string_view name, std::string_view letter) {
  Given given;
  const auto words = fmt::format("--{}", name);
  for (const auto& argument : batch.sbatch_arguments) {
    std::string_view value = argument;
    if (value.starts_with(words + "=") || value.starts_with(words + " "))
      value.remove_prefix(words.size());
    else if (!letter.empty() && value.starts_with(letter))
      value.remove_prefix(letter.size());
    else
      continue;
    if (!value.empty() && (value.front() == '=' || value.front() == ' ')) value.remove_prefix(1);
    given = {"--sbatch-arg=" + argument, std::string(value)};
  }
  return given;
}

// Returns what applies: sbatch's variable, then its own argument, then hvdrun's option.
Given find_given(const BatchSpec& batch, const Environment& environment, std::string_view name,
                 std::string_view letter, const char* variable) {
  if (const auto* value = find_variable(environment, variable))
    return {fmt::format("{}={}", variable, *value), *value};
  if (auto given = in_arguments(batch, name, letter); !given.source.empty()) return given;
  for (const auto& option : batch.slurm_options)
    if (option.name == name) return {fmt::format("--{} {}", name, option.value), option.value};
  return {};
}

Result<void> check_not_refused(const BatchSpec& batch, const Environment& environment) {
  constexpr const char* kVariable = "SBATCH_NO_REQUEUE";
  const bool is_set = find_variable(environment, kVariable) != nullptr;
  const bool is_argument =
      std::ranges::find(batch.sbatch_arguments, "--no-requeue") != batch.sbatch_arguments.end();
  if (!is_set && !is_argument) return {};
  return fail(
      fmt::format("--requeue: {} keeps the job from going back into the queue; leave one of "
                  "them out",
                  is_set ? kVariable : "--sbatch-arg=--no-requeue"),
      kExitUsage);
}

}  // namespace

Result<std::vector<std::string>> check_requeue_request(const BatchSpec& batch,
                                                       const Environment& environment) {
  std::vector<std::string> warnings;
  if (!batch.requeue) return warnings;
  HVD_CHECK(check_not_refused(batch, environment));
  const auto signal = find_given(batch, environment, "signal", "", "SBATCH_SIGNAL");
  if (const auto why = why_not_requeued(signal.value); !why.empty())
    return fail(fmt::format("--requeue with the signal of {}: {}", signal.source, why), kExitUsage);
  const auto time = find_given(batch, environment, "time", "-t", "SBATCH_TIMELIMIT");
  const auto limit = parse_limit(time.value);
  const auto warning = parse_warning_signal(signal.value);
  // A limit of 0 is none (sbatch(1)).
  if (!limit || limit->count() == 0 || !warning) return warnings;
  const auto fault = compare_limit(*limit, *warning);
  if (fault.text.empty()) return warnings;
  const auto text = fmt::format("--requeue with {}: {}", time.source, fault.text);
  if (fault.is_sure) return fail(text, kExitUsage);
  warnings.push_back(warning_text(text));
  return warnings;
}

std::string missed_signal_warning(const BatchSpec& batch, const BatchShape& shape,
                                  const Environment& environment) {
  if (batch.requeue || shape.nodes.value_or(1) > 1) return {};
  const auto signal = find_given(batch, environment, "signal", "", "SBATCH_SIGNAL");
  const auto warning = parse_warning_signal(signal.value);
  if (!warning || warning->for_shell) return {};
  const auto colon = signal.value.find(':');
  const auto flags = colon == std::string::npos ? std::string() : signal.value.substr(0, colon);
  return warning_text(fmt::format(
      "{}: SLURM sends it to steps of srun only, so on one node no rank gets it; type --signal "
      "{}B:{}",
      signal.source, flags, signal.value.substr(flags.empty() ? 0 : flags.size() + 1)));
}

}  // namespace hvdrun
