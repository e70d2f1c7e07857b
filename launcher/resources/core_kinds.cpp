#include "resources/core_kinds.hpp"

#include "common/file_content.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

std::optional<long> read_number(const fs::path& file) {
  std::istringstream stream(content_of(file));
  long number = 0;
  if (!(stream >> number)) return std::nullopt;
  return number;
}

fs::path cpu_folder(const fs::path& sysfs, int pu) {
  return sysfs / fmt::format("devices/system/cpu/cpu{}", pu);
}

// Sets the kinds as Intel's processors name them. Returns whether the machine has such names.
bool read_named_kinds(const fs::path& sysfs, std::vector<Core>& cores) {
  const char* const slower[] = {"cpu_atom", "cpu_lowpower"};
  bool has_names = false;
  int kind = 0;
  for (const char* name : slower) {
    ++kind;
    const auto list = read_cpu_list(sysfs / "devices" / name / "cpus");
    has_names = has_names || !list.empty();
    const std::set<int> pus(list.begin(), list.end());
    for (auto& core : cores)
      if (pus.contains(core.pus.front())) core.kind = kind;
  }
  return has_names;
}

void read_kinds_by_speed(const fs::path& sysfs, std::vector<Core>& cores) {
  // Larger machines have one kind of core, and asking all of them would take long.
  constexpr std::size_t kMostCores = 32;
  if (cores.size() > kMostCores) return;
  const auto first = cpu_folder(sysfs, cores.front().pus.front());
  const char* const file = read_number(first / "cpu_capacity") ? "cpu_capacity"  // on ARM
                                                               : "cpufreq/cpuinfo_max_freq";
  std::multimap<long, Core*, std::greater<>> by_speed;
  for (auto& core : cores) {
    const auto speed = read_number(cpu_folder(sysfs, core.pus.front()) / file);
    if (!speed) return;
    by_speed.emplace(*speed, &core);
  }
  int kind = 0;
  long fastest = by_speed.begin()->first;
  for (const auto& [speed, core] : by_speed) {
    if (is_slower_kind(speed, fastest)) {
      ++kind;
      fastest = speed;
    }
    core->kind = kind;
  }
}

}  // namespace

std::vector<int> read_cpu_list(const fs::path& file) {
  std::vector<int> list;
  std::istringstream stream(content_of(file));
  std::string part;
  while (std::getline(stream, part, ',')) {
    std::istringstream range(part);
    int first = 0;
    if (!(range >> first) || first < 0) break;
    int last = first;
    if (range.peek() == '-' && (!(range.ignore() >> last) || last < first)) break;
    for (int number = first; number <= last; ++number) list.push_back(number);
  }
  return list;
}

bool is_slower_kind(long speed, long fastest) {
  constexpr double kLeast = 0.8;
  return static_cast<double>(speed) < kLeast * static_cast<double>(fastest);
}

void read_core_kinds(const fs::path& sysfs, std::vector<Core>& cores) {
  if (!cores.empty() && !read_named_kinds(sysfs, cores)) read_kinds_by_speed(sysfs, cores);
}

}  // namespace hvdrun
