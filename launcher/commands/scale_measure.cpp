#include "commands/scale_measure.hpp"

#include "commands/scale_statistics.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace hvdrun::scale {
namespace {

using Json = nlohmann::ordered_json;

// In bytes. std::regex uses a stack frame for each character.
constexpr std::size_t kLongestLine = 4096;

struct Epoch {
  double seconds = 0;
  double samples = 0;
};

// Returns the epochs by their place in the run, from 0. All ranks make the same epochs.
std::map<std::uint64_t, Epoch> epochs_of(const Json& ranks) {
  std::map<std::uint64_t, Epoch> epochs;
  for (const auto& rank : ranks) {
    const auto& counters = rank.at("counters");
    if (counters.is_null()) continue;
    const auto& last_epochs = counters.at("epochs");
    auto place = counters.at("epochs_over").get<std::uint64_t>() - last_epochs.size();
    for (const auto& one : last_epochs) {
      Epoch& epoch = epochs[place++];
      epoch.seconds = std::max(epoch.seconds, one.at("seconds").get<double>());
      epoch.samples += one.at("samples").get<double>();
    }
  }
  return epochs;
}

// Returns the number; NaN for null, which JSON has in place of NaN and infinity.
double number_of(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

MetricValue* find_metric(std::vector<MetricValue>& metrics, const std::string& name) {
  const auto at = std::find_if(metrics.begin(), metrics.end(),
                               [&](const MetricValue& metric) { return metric.name == name; });
  return at == metrics.end() ? nullptr : &*at;
}

void set_metric(std::vector<MetricValue>& metrics, const std::string& name, double value) {
  if (MetricValue* const known = find_metric(metrics, name))
    known->value = value;
  else
    metrics.push_back({name, value});
}

void read_metrics(const Json& ranks, std::vector<MetricValue>& metrics) {
  for (const auto& rank : ranks) {
    const auto& counters = rank.at("counters");
    if (counters.is_null()) continue;
    for (const auto& [name, value] : counters.at("metrics").items())
      if (find_metric(metrics, name) == nullptr) metrics.push_back({name, number_of(value)});
  }
}

std::vector<HostHardware> hosts_in(const Json& hosts) {
  std::vector<HostHardware> found;
  for (const auto& host : hosts) {
    if (!host.contains("cores") || host["cores"].is_null()) continue;
    HostHardware hardware{host.at("host").get<std::string>(), host["cores"].get<int>(), {}};
    for (const auto& name : host.at("devices"))
      hardware.gpus.push_back(name.is_null() ? std::string() : name.get<std::string>());
    found.push_back(std::move(hardware));
  }
  return found;
}

void read_epochs(const Json& ranks, int epochs_dropped, Run& run) {
  auto epochs = epochs_of(ranks);
  if (epochs.empty()) return;
  if (epochs.rbegin()->first >= static_cast<std::uint64_t>(epochs_dropped))
    epochs.erase(epochs.begin(), epochs.lower_bound(static_cast<std::uint64_t>(epochs_dropped)));
  std::vector<double> seconds;
  std::vector<double> throughputs;
  for (const auto& [place, epoch] : epochs) {
    seconds.push_back(epoch.seconds);
    if (epoch.samples > 0 && epoch.seconds > 0)
      throughputs.push_back(epoch.samples / epoch.seconds);
  }
  run.epochs = static_cast<int>(epochs.size());
  run.epoch_seconds = median(std::move(seconds));
  run.throughput = median(std::move(throughputs));
}

// Returns the number in the expression's first group; nullopt if it does not match or the group is
// not a number.
std::optional<double> number_in(std::string_view line, const std::regex& pattern) {
  std::match_results<std::string_view::const_iterator> match;
  if (!std::regex_search(line.begin(), line.end(), match, pattern) || !match[1].matched)
    return std::nullopt;
  const std::string text = match[1].str();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<double> numbers_in(std::string_view output, const std::optional<std::regex>& pattern) {
  std::vector<double> numbers;
  if (!pattern) return numbers;
  while (!output.empty()) {
    const auto end = std::min(output.find('\n'), output.size());
    if (const auto number = number_in(output.substr(0, std::min(end, kLongestLine)), *pattern))
      numbers.push_back(*number);
    output.remove_prefix(std::min(end + 1, output.size()));
  }
  return numbers;
}

// Returns the numbers without the first `count`, unless there are no others.
std::vector<double> dropped(std::vector<double> numbers, int count) {
  if (numbers.size() > static_cast<std::size_t>(count))
    numbers.erase(numbers.begin(), numbers.begin() + count);
  return numbers;
}

}  // namespace

Result<std::regex> parse_pattern(const std::string& text) {
  try {
    std::regex pattern(text, std::regex::ECMAScript | std::regex::optimize);
    if (pattern.mark_count() == 0)
      return fail(
          quote(text) + " has no group; put the number in parentheses: " + "samples/s: ([0-9.]+)",
          kExitUsage);
    return pattern;
  } catch (const std::regex_error& error) {
    return fail(quote(text) + " is not a regular expression: " + error.what(), kExitUsage);
  }
}

Result<void> measure_report(std::string_view report, int epochs_dropped, Run& run) {
  // The JSON library throws. No exception leaves this function.
  try {
    const Json json = Json::parse(report);
    run.wall_seconds = json.at("wall_seconds").get<double>();
    const auto& ranks = json.at("ranks");
    read_epochs(ranks, epochs_dropped, run);
    read_metrics(ranks, run.metrics);
    run.hosts = hosts_in(json.value("hosts", Json::array()));
    return {};
  } catch (const Json::exception& error) {
    return fail(std::string("the report of the run cannot be read: ") + error.what());
  }
}

void measure_output(std::string_view output, const Patterns& patterns, int epochs_dropped,
                    Run& run) {
  const auto throughputs = dropped(numbers_in(output, patterns.throughput), epochs_dropped);
  if (!throughputs.empty()) run.throughput = median(throughputs);
  const auto seconds = dropped(numbers_in(output, patterns.epoch_seconds), epochs_dropped);
  if (!seconds.empty()) run.epoch_seconds = median(seconds);
  if (const auto found = std::max(throughputs.size(), seconds.size()); found > 0)
    run.epochs = static_cast<int>(found);
  if (const auto losses = numbers_in(output, patterns.loss); !losses.empty())
    set_metric(run.metrics, "loss", losses.back());
  if (const auto accuracies = numbers_in(output, patterns.accuracy); !accuracies.empty())
    set_metric(run.metrics, "accuracy", accuracies.back());
}

}  // namespace hvdrun::scale
