#include "slurm/warning_signal.hpp"

#include "base/event_loop.hpp"
#include "base/passed_signals.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using std::chrono::seconds;

// SLURM may send the signal this much earlier (sbatch(1)).
constexpr seconds kEarlier{60};

// Returns nullopt also for a number of more digits than SLURM's own have.
std::optional<int> number_in(std::string_view text) {
  constexpr std::size_t kMostDigits = 8;
  if (text.size() > kMostDigits) return {};
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return {};
  return number;
}

std::optional<int> signal_in(std::string_view text) {
  if (const auto number = number_in(text)) {
    if (*number > 0 && *number <= SIGRTMAX) return number;
    return {};
  }
  std::string name(text);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (!name.starts_with("SIG")) name.insert(0, "SIG");
  for (int signal = 1; signal < SIGRTMIN; ++signal)
    if (signal_name(signal) == name) return signal;
  return {};
}

bool is_passed_on(int signal) {
  return std::ranges::find(passed_signals(), signal) != passed_signals().end();
}

std::string minutes_text(seconds time) {
  const auto minutes = std::chrono::ceil<std::chrono::minutes>(time).count();
  return fmt::format("{} minute{}", minutes, minutes == 1 ? "" : "s");
}

}  // namespace

std::optional<WarningSignal> parse_warning_signal(std::string_view text) {
  WarningSignal warning;
  if (const auto colon = text.find(':'); colon != std::string_view::npos) {
    const auto flags = text.substr(0, colon);
    if (flags.empty() || flags.find_first_not_of("RBrb") != std::string_view::npos) return {};
    warning.for_shell = flags.find_first_of("Bb") != std::string_view::npos;
    text.remove_prefix(colon + 1);
  }
  const auto at = text.find('@');
  const auto signal = signal_in(text.substr(0, at));
  if (!signal) return {};
  warning.number = *signal;
  if (at != std::string_view::npos) {
    const auto before = number_in(text.substr(at + 1));
    if (!before) return {};
    warning.before = seconds(*before);
  }
  return warning;
}

std::optional<seconds> parse_limit(std::string_view text) {
  const auto dash = text.find('-');
  const bool has_days = dash != std::string_view::npos;
  std::vector<int> numbers;
  auto rest = has_days ? text.substr(dash + 1) : text;
  while (true) {
    const auto colon = rest.find(':');
    const auto number = number_in(rest.substr(0, colon));
    if (!number) return {};
    numbers.push_back(*number);
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (numbers.size() > 3) return {};
  // With days, the numbers begin with hours; without, one number is of minutes, two begin with
  // them.
  if (!has_days && numbers.size() < 3) numbers.insert(numbers.begin(), 0);
  numbers.resize(3, 0);
  const auto days = has_days ? number_in(text.substr(0, dash)) : 0;
  if (!days) return {};
  return seconds(((*days * 24LL + numbers[0]) * 60 + numbers[1]) * 60 + numbers[2]);
}

std::string why_not_requeued(std::string_view signal) {
  const auto warning = parse_warning_signal(signal);
  if (!warning) return {};
  const bool is_ours = is_passed_on(warning->number);
  if (is_ours && warning->for_shell) return {};
  const auto name = signal_name(is_ours && warning->number < SIGRTMIN ? warning->number : SIGUSR1);
  const auto right = fmt::format("B:{}@{}", name.substr(3), warning->before.count());
  if (!warning->for_shell)
    return fmt::format(
        "SLURM sends it to steps of srun only, so not all ranks get it, and the job "
        "does not go back into the queue; type --signal {}",
        right);
  return fmt::format(
      "{} ends the job, and a job that is ended does not go back into the queue; "
      "type --signal {}",
      signal_name(warning->number), right);
}

LimitFault compare_limit(seconds limit, const WarningSignal& warning) {
  if (limit > warning.before + kEarlier) return {};
  const bool is_sure = limit <= warning.before;
  const auto longer = minutes_text(warning.before + kEarlier + seconds(1));
  return {fmt::format("SLURM sends the warning signal {} s before the time limit, or up to {} s "
                      "earlier: the ranks {} stop as soon as they have started; choose a --time of "
                      "at least {}, or a --signal with less time",
                      warning.before.count(), kEarlier.count(), is_sure ? "would" : "may", longer),
          is_sure};
}

}  // namespace hvdrun
