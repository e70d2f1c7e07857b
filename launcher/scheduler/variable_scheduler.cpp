#include "scheduler/variable_scheduler.hpp"

#include "base/files.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::size_t kLargest = 1 << 20;  // bytes of a file of hosts

// A host of a list. It may come several times.
struct Entry {
  std::string name;
  std::optional<int> slots;
};

std::string value_of(const Environment& environment, std::string_view name) {
  const auto* value = name.empty() ? nullptr : find_variable(environment, name);
  return value == nullptr ? std::string() : *value;
}

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || number < 1)
    return std::nullopt;
  return number;
}

// Returns the hosts in "n1 n1 n2" or, with numbers, in "n1 4 n2 4". Returns none if it has another
// form.
std::vector<Entry> entries_of_words(std::string_view text, bool has_numbers) {
  std::vector<Entry> entries;
  std::istringstream words{std::string(text)};
  for (std::string name, number; words >> name;) {
    entries.push_back({name, {}});
    if (has_numbers && !(words >> number && (entries.back().slots = number_in(number)))) return {};
  }
  return entries;
}

// Returns the hosts in a file's lines. Returns none if a line has another form.
std::vector<Entry> entries_of_lines(std::string_view text, bool has_numbers) {
  std::vector<Entry> entries;
  std::istringstream lines{std::string(text)};
  for (std::string line, name, number; std::getline(lines, line);) {
    std::istringstream columns(line);
    if (!(columns >> name) || name.front() == '#') continue;
    entries.push_back({name, {}});
    if (has_numbers && !(columns >> number && (entries.back().slots = number_in(number))))
      return {};
  }
  return entries;
}

std::vector<Entry> entries_of(const HostList& list, const Environment& environment) {
  const auto value = value_of(environment, list.variable);
  if (value.empty()) return {};
  if (list.form == HostListForm::words || list.form == HostListForm::pairs)
    return entries_of_words(value, list.form == HostListForm::pairs);
  const auto text = read_file(value, kLargest, "");
  if (!text) return {};
  return entries_of_lines(*text, list.form == HostListForm::slots);
}

// Adds up the slots of each host. A host that comes once, without a number, may have any.
std::vector<JobHost> hosts_of(const std::vector<Entry>& entries, const JobShare& share) {
  std::vector<JobHost> hosts;
  for (const auto& entry : entries) {
    const auto known = std::ranges::find(hosts, entry.name, &JobHost::name);
    if (known == hosts.end()) {
      hosts.push_back({entry.name, share});
      hosts.back().share.tasks = entry.slots;
    } else {
      auto& tasks = known->share.tasks;
      int sum = 0;
      if (__builtin_add_overflow(tasks.value_or(1), entry.slots.value_or(1), &sum))
        sum = std::numeric_limits<int>::max();
      tasks = sum;
    }
  }
  return hosts;
}

// Returns the hosts with their slots as -H takes them.
std::string request_for(const std::vector<JobHost>& hosts) {
  std::string text;
  for (const auto& host : hosts)
    text +=
        fmt::format("{}{}:{}", text.empty() ? "" : ",", host.name, host.share.tasks.value_or(1));
  return text;
}

}  // namespace

std::optional<std::string> VariableScheduler::job_id(const Environment& environment) const {
  for (const auto sign : row_.signs)
    if (!value_of(environment, sign).empty()) return value_of(environment, row_.id);
  return std::nullopt;
}

Result<ScheduledJob> VariableScheduler::read_job(const Environment& environment, bool,
                                                 const Ask&) const {
  ScheduledJob job;
  job.id = job_id(environment).value_or("");
  job.source = fmt::format("{} job {}", row_.name, job.id);
  const bool has_list = row_.lists.front().form != HostListForm::none;
  job.all_hosts = has_list ? "-H HOST,HOST" : row_.to_type;
  JobShare share;
  share.scheduler = this;
  for (const auto& list : row_.lists) {
    const auto entries = entries_of(list, environment);
    if (entries.empty()) continue;
    share.tasks_source = list.variable;
    job.hosts = hosts_of(entries, share);
    job.host_count = static_cast<int>(job.hosts.size());
    job.all_hosts = list.form == HostListForm::lines ? fmt::format("--hostfile ${}", list.variable)
                                                     : "-H " + request_for(job.hosts);
    return job;
  }
  job.host_count = number_in(value_of(environment, row_.count));
  return job;
}

}  // namespace hvdrun
