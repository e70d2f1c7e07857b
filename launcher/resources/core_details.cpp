#include "resources/core_details.hpp"

#include <algorithm>
#include <fstream>
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
  std::ifstream stream(file);
  long number = 0;
  if (!(stream >> number)) return std::nullopt;
  return number;
}

fs::path cpu_folder(const fs::path& sysfs, int pu) {
  return sysfs / fmt::format("devices/system/cpu/cpu{}", pu);
}

// Returns the number that the kernel gives the L3 cache among a CPU's caches. It is 3 on nearly
// every machine.
std::optional<int> index_of_l3(const fs::path& caches) {
  constexpr int kMostCaches = 10;
  constexpr int kUsual = 3;
  if (read_number(caches / fmt::format("index{}/level", kUsual)) == 3) return kUsual;
  for (int index = 0; index < kMostCaches; ++index) {
    const auto level = read_number(caches / fmt::format("index{}/level", index));
    if (!level) return std::nullopt;
    if (*level == 3) return index;
  }
  return std::nullopt;
}

void read_l3_caches(const fs::path& sysfs, std::vector<Core>& cores) {
  const auto index = index_of_l3(cpu_folder(sysfs, cores.front().pus.front()) / "cache");
  if (!index) return;
  std::map<int, int> cache_of;  // by PU
  int next = 0;
  for (auto& core : cores) {
    const int pu = core.pus.front();
    if (!cache_of.contains(pu)) {
      const auto file =
          cpu_folder(sysfs, pu) / fmt::format("cache/index{}/shared_cpu_list", *index);
      for (const int sharing : read_cpu_list(file)) cache_of.emplace(sharing, next);
      if (cache_of.contains(pu)) ++next;
    }
    const auto found = cache_of.find(pu);
    if (found != cache_of.end()) core.l3_cache = found->second;
  }
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

// Returns how fast the kernel says that a CPU is, compared with others of this machine.
std::optional<long> speed_of(const fs::path& folder) {
  const auto capacity = read_number(folder / "cpu_capacity");
  return capacity ? capacity : read_number(folder / "cpufreq/cpuinfo_max_freq");
}

void read_kinds_by_speed(const fs::path& sysfs, std::vector<Core>& cores) {
  // Larger machines have one kind of core, and asking all of them would take long.
  constexpr std::size_t kMostCores = 64;
  if (cores.size() > kMostCores) return;
  std::multimap<long, Core*, std::greater<>> by_speed;
  for (auto& core : cores) {
    const auto speed = speed_of(cpu_folder(sysfs, core.pus.front()));
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
  std::ifstream stream(file);
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

void read_core_details(const fs::path& sysfs, std::vector<Core>& cores) {
  if (cores.empty()) return;
  read_l3_caches(sysfs, cores);
  if (!read_named_kinds(sysfs, cores)) read_kinds_by_speed(sysfs, cores);
}

}  // namespace hvdrun
