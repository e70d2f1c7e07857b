#include "commands/scale_measure.hpp"

#include "common/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include <nlohmann/json.hpp>

namespace hvdrun::scale {
namespace {

bool has_nan(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
}

using Json = nlohmann::ordered_json;

// std::regex uses a stack frame a character.
constexpr std::size_t kLongestLine = 4096;

struct Epoch {
  double seconds = 0;
  double samples = 0;
};

// By their place in the run, counted from 0. The ranks make the same epochs.
std::map<std::uint64_t, Epoch> epochs_of(const Json& ranks) {
  std::map<std::uint64_t, Epoch> epochs;
  for (const auto& rank : ranks) {
    const auto& counters = rank.at("counters");
    if (counters.is_null()) continue;
    const auto& told = counters.at("epochs");
    auto place = counters.at("epochs_over").get<std::uint64_t>() - told.size();
    for (const auto& one : told) {
      Epoch& epoch = epochs[place++];
      epoch.seconds = std::max(epoch.seconds, one.at("seconds").get<double>());
      epoch.samples += one.at("samples").get<double>();
    }
  }
  return epochs;
}

// JSON has null for what is not a number.
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

// The first group of an expression, where it is a number.
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

// Without the first ones, unless there are no others.
std::vector<double> dropped(std::vector<double> numbers, int count) {
  if (numbers.size() > static_cast<std::size_t>(count))
    numbers.erase(numbers.begin(), numbers.begin() + count);
  return numbers;
}

}  // namespace

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  if (has_nan(values)) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

std::optional<Figure> figure_of(const std::vector<double>& values) {
  const auto middle = median(values);
  if (!middle) return std::nullopt;
  const int count = static_cast<int>(values.size());
  if (std::isnan(*middle)) return Figure{*middle, *middle, *middle, count};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return Figure{*middle, *least, *most, count};
}

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
  // The library reports by exceptions; they end here.
  try {
    const Json json = Json::parse(report);
    run.wall_seconds = json.at("wall_seconds").get<double>();
    const auto& ranks = json.at("ranks");
    read_epochs(ranks, epochs_dropped, run);
    read_metrics(ranks, run.metrics);
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
