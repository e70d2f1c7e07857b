#include "resources/chosen_devices.hpp"

#include "base/is_one_of.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hvdrun {
namespace {

constexpr std::string_view kCuda = "CUDA_VISIBLE_DEVICES";

using Entries = std::vector<std::string>;

// Returns the entries of a list, with empty ones in their places.
Entries entries_of(std::string_view text) {
  Entries entries;
  while (true) {
    const auto comma = std::min(text.find(','), text.size());
    entries.emplace_back(trim(text.substr(0, comma)));
    if (comma == text.size()) return entries;
    text.remove_prefix(comma + 1);
  }
}

std::string join_list(const Entries& entries) {
  return fmt::format("{}", fmt::join(entries, ","));
}

// The number of an entry, and a part of that device: "1" and ".0" of Intel's "1.0".
struct Numbered {
  std::size_t number = 0;
  std::string part;
};

std::optional<Numbered> numbered(const std::string& entry) {
  Numbered result;
  const char* const end = entry.data() + entry.size();
  const auto [stop, error] = std::from_chars(entry.data(), end, result.number);
  if (error != std::errc() || (stop != end && *stop != '.')) return std::nullopt;
  result.part.assign(stop, end);
  return result;
}

bool has_numbers(const Entries& entries) {
  return std::ranges::any_of(entries, [](const auto& each) { return numbered(each).has_value(); });
}

bool has_names(const Entries& entries) {
  return std::ranges::any_of(entries, [](const std::string& entry) {
    return entry.starts_with("GPU-") || entry.starts_with("MIG-");
  });
}

bool is_device(const std::string& entry) {
  return numbered(entry).has_value() || has_names({entry});
}

Entries counting(std::size_t count) {
  Entries entries;
  for (std::size_t i = 0; i < count; ++i) entries.push_back(std::to_string(i));
  return entries;
}

// Reads "0,2-3". Returns nothing for what is no list of numbers.
Entries expand_numbers(std::string_view text) {
  Entries all;
  for (const auto& entry : entries_of(text)) {
    const auto dash = entry.find('-');
    const auto first = numbered(entry.substr(0, dash));
    const auto last = dash == std::string::npos ? first : numbered(entry.substr(dash + 1));
    constexpr std::size_t kMost = 4096;
    if (!first || !last || last->number >= kMost) return {};
    for (auto number = first->number; number <= last->number; ++number)
      all.push_back(std::to_string(number));
  }
  return all;
}

struct Cut {
  Entries left;
  bool lost = false;  // an entry was left out
};

// Returns the choice as entries of `own`: by number if it is counted, otherwise by value.
Cut cut_to(const Entries& own, const Entries& choice, bool counted) {
  Cut cut;
  for (const auto& entry : choice) {
    const auto number = numbered(entry);
    if (!number)
      cut.left.push_back(entry);
    else if (!counted && is_one_of(entry, own))
      cut.left.push_back(entry);
    else if (counted && number->number < own.size() && is_device(own[number->number]))
      cut.left.push_back(own[number->number] + number->part);
    else
      cut.lost = true;
  }
  return cut;
}

std::string say_list(const std::string& list) {
  return list.empty() ? "none" : list;
}

// The GPUs that a scheduler's job has on this host.
struct Given {
  const Scheduler* scheduler;
  Entries ids;  // the host's numbers for them
  // Whether the scheduler's variables have these numbers (true) or 0, 1, …; nullopt: not known.
  std::optional<bool> by_id;
};

std::optional<bool> find_numbering(const Environment& environment, const Entries& ids) {
  const auto from_zero = counting(ids.size());
  if (ids == from_zero) return false;
  for (const auto name : kGivenDeviceVariables) {
    if (name == kCuda) continue;  // the one that users set
    const auto* value = find_variable(environment, name);
    if (value != nullptr && entries_of(*value) == ids) return true;
    if (value != nullptr && entries_of(*value) == from_zero) return false;
  }
  return std::nullopt;
}

std::optional<Given> given_here(const Environment& environment, const Scheduler* scheduler) {
  const auto* list = scheduler == nullptr ? nullptr : scheduler->gpus_here(environment);
  if (list == nullptr) return std::nullopt;
  Given given{scheduler, expand_numbers(*list), {}};
  if (given.ids.empty()) return std::nullopt;
  given.by_id = find_numbering(environment, given.ids);
  return given;
}

// Returns the scheduler's value of a variable that the user has unset; "" if it is not known.
std::string value_of_scheduler(const Given& given) {
  if (!given.by_id) return {};
  return join_list(*given.by_id ? given.ids : counting(given.ids.size()));
}

// Returns whether the scheduler has set CUDA_VISIBLE_DEVICES, and the user has unset it. For AMD's
// GPUs it may set ROCR_VISIBLE_DEVICES alone.
bool is_unset_by_user(const Environment& environment) {
  if (find_variable(environment, kCuda) != nullptr) return false;
  const auto others = std::ranges::count_if(kGivenDeviceVariables, [&](const auto name) {
    return find_variable(environment, name) != nullptr;
  });
  return others != 1;
}

// Takes a variable that schedulers set, on a host where one has given GPUs.
void take_given(const Given& given, const std::string& name, std::string& value,
                ChosenDevices& chosen) {
  const auto entries = entries_of(value);
  const auto from_zero = counting(given.ids.size());
  const bool is_by_id = given.by_id.value_or(false);
  const auto by = given.scheduler->name();
  if (value == given.scheduler->no_devices() || entries == given.ids ||
      (entries == from_zero && !is_by_id))
    return;
  if (has_names(entries)) {
    if (entries.size() < given.ids.size())
      chosen.notes_elsewhere.push_back(fmt::format(
          "{} names devices of this host; other hosts use all that {} gave there", name, by));
    return;
  }
  Cut places{entries, false};  // numbers from 0 among those that it gave
  const bool known =
      std::ranges::all_of(entries, [&](const auto& entry) { return is_one_of(entry, given.ids); });
  if (known && given.by_id.value_or(true)) {
    for (auto& entry : places.left)
      entry = std::to_string(std::ranges::find(given.ids, entry) - given.ids.begin());
  } else {
    const auto cut = cut_to(is_by_id ? given.ids : from_zero, entries, true);
    const auto here = join_list(cut.left);
    if (here != join_list(entries))
      chosen.notes.push_back(fmt::format(
          "{}={} means {} here: {} gave the job {} of this host, and the numbers count among them",
          name, value, say_list(here), by, join_list(given.ids)));
    value = here;
  }
  chosen.elsewhere.push_back({name, join_list(places.left), true});
}

}  // namespace

ChosenDevices choose_devices(Environment& environment, Schedulers all) {
  ChosenDevices chosen;
  const auto* scheduler = scheduler_of(environment, all);
  if (scheduler != nullptr && !scheduler->started_by()) scheduler = nullptr;
  const auto given = given_here(environment, scheduler);
  for (auto& [name, value] : environment) {
    if (!is_device_variable(name)) continue;
    const bool is_given = is_one_of(name, kGivenDeviceVariables);
    if (given && is_given)
      take_given(*given, name, value, chosen);
    else if (scheduler != nullptr && is_given && value == scheduler->no_devices())
      continue;
    else if (has_names(entries_of(value)))
      chosen.notes_elsewhere.push_back(
          fmt::format("{} names devices of this host; other hosts use theirs", name));
    else
      chosen.elsewhere.push_back({name, value, scheduler != nullptr && is_given});
  }
  if (!given || !is_unset_by_user(environment)) return chosen;
  if (const auto value = value_of_scheduler(*given); !value.empty())
    environment.emplace(kCuda, value);
  else
    chosen.notes_elsewhere.push_back(fmt::format(
        "{} is not set here; other hosts use what {} gave there", kCuda, given->scheduler->name()));
  return chosen;
}

std::vector<std::string> apply_choices(const std::vector<DeviceChoice>& choices,
                                       Environment& environment) {
  std::vector<std::string> notes;
  for (const auto& choice : choices) {
    const auto* own = find_variable(environment, choice.name);
    const auto entries = entries_of(choice.value);
    const auto of_host = own == nullptr ? Entries() : entries_of(*own);
    if (own == nullptr || !has_numbers(entries) || is_one_of("all", of_host)) {
      environment[choice.name] = choice.value;
      continue;
    }
    const auto cut = cut_to(of_host, entries, choice.counted);
    const auto left = join_list(cut.left);
    if (cut.lost)
      notes.push_back(fmt::format("{}={} is cut to {}: this host was given {}", choice.name,
                                  choice.value, say_list(left), say_list(*own)));
    environment[choice.name] = left;
  }
  return notes;
}

int count_chosen_gpus(const std::vector<DeviceChoice>& choices, int gpus) {
  const auto choice = std::ranges::find(choices, kCuda, &DeviceChoice::name);
  if (choice == choices.end()) return gpus;
  int count = 0;
  for (const auto& entry : entries_of(choice->value)) {
    const auto number = numbered(entry);
    if (!number) break;  // CUDA stops there
    if (number->number < static_cast<std::size_t>(gpus)) ++count;
  }
  return count;
}

}  // namespace hvdrun
