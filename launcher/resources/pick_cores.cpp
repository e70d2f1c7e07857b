#include "resources/pick_cores.hpp"

#include <algorithm>
#include <iterator>
#include <map>

namespace hvdrun {
namespace {

// What cores share, the widest first.
constexpr int Core::*kDomains[] = {&Core::package, &Core::numa_node, &Core::l3_cache};

// Returns the cores by what they share, in the order of the first of each.
std::vector<Cores> by_domain(const std::vector<Core>& cores, const Cores& of, int Core::*domain) {
  std::vector<Cores> groups;
  std::map<int, std::size_t> known;
  auto last = known.end();  // neighbours mostly share
  for (const int position : of) {
    const int number = cores[static_cast<std::size_t>(position)].*domain;
    if (last == known.end() || last->first != number) {
      last = known.emplace(number, groups.size()).first;
      if (last->second == groups.size()) groups.emplace_back();
    }
    groups[last->second].push_back(position);
  }
  return groups;
}

// Returns the smallest group with `count` cores, or the largest one if none has as many.
std::vector<Cores>::iterator best_group(std::vector<Cores>& groups, std::size_t count) {
  return std::ranges::min_element(groups, [&](const Cores& a, const Cores& b) {
    const bool a_suffices = a.size() >= count;
    if (a_suffices != (b.size() >= count)) return a_suffices;
    return a_suffices ? a.size() < b.size() : a.size() > b.size();
  });
}

Cores pick_at(const std::vector<Core>& cores, const Cores& free, std::size_t count,
              std::size_t level) {
  if (count >= free.size()) return free;
  if (level == std::size(kDomains))
    return {free.begin(), free.begin() + static_cast<std::ptrdiff_t>(count)};
  auto groups = by_domain(cores, free, kDomains[level]);
  Cores picked;
  while (picked.size() < count) {
    const auto best = best_group(groups, count - picked.size());
    const auto part = pick_at(cores, *best, count - picked.size(), level + 1);
    picked.insert(picked.end(), part.begin(), part.end());
    groups.erase(best);
  }
  std::ranges::sort(picked);
  return picked;
}

}  // namespace

std::size_t part_size(std::size_t total, std::size_t i, std::size_t parts) {
  return total * (i + 1) / parts - total * i / parts;
}

Cores pick_cores(const std::vector<Core>& cores, const Cores& free, std::size_t count) {
  return pick_at(cores, free, count, 0);
}

void remove_cores(Cores& from, const Cores& cores) {
  Cores left;
  std::ranges::set_difference(from, cores, std::back_inserter(left));
  from = std::move(left);
}

std::vector<Cores> by_kind(const std::vector<Core>& cores, const Cores& of) {
  auto kinds = by_domain(cores, of, &Core::kind);
  std::ranges::sort(kinds, {}, [&](const Cores& kind) {
    return cores[static_cast<std::size_t>(kind.front())].kind;
  });
  return kinds;
}

std::vector<std::vector<std::size_t>> divide_kinds(const std::vector<Cores>& kinds,
                                                   std::size_t parts) {
  std::vector<std::vector<std::size_t>> sizes;
  std::size_t dealt = 0;
  for (const auto& kind : kinds) {
    auto& of_kind = sizes.emplace_back(parts, 0);
    if (kinds.size() == 1)
      for (std::size_t i = 0; i < parts; ++i) of_kind[i] = part_size(kind.size(), i, parts);
    else
      for (std::size_t i = 0; i < kind.size(); ++i) ++of_kind[dealt++ % parts];
  }
  return sizes;
}

}  // namespace hvdrun
