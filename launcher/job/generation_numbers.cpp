#include "job/generation_numbers.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

namespace hvdrun {
namespace {

// Moves the newcomers that do not fit from `newcomers` to the result. Each that goes makes its host
// smaller, so the highest slot of a host goes first.
std::vector<std::uint32_t> take_misfits(const std::vector<Survivor>& survivors,
                                        std::vector<MemberPlace>& newcomers) {
  std::map<std::uint32_t, std::uint32_t> sizes;  // of hosts
  for (const auto& survivor : survivors) ++sizes[survivor.place.host];
  for (const auto& newcomer : newcomers) ++sizes[newcomer.host];
  std::vector<std::uint32_t> misfits;
  while (true) {
    auto worst = newcomers.end();
    for (auto at = newcomers.begin(); at != newcomers.end(); ++at) {
      if (at->slot < sizes[at->host]) continue;
      if (worst == newcomers.end() || at->slot > worst->slot) worst = at;
    }
    if (worst == newcomers.end()) return misfits;
    --sizes[worst->host];
    misfits.push_back(worst->member);
    newcomers.erase(worst);
  }
}

void number_locally(std::vector<NumberedMember>& ranks, const std::vector<MemberPlace>& newcomers) {
  const auto is_new = [&](std::uint32_t member) {
    return std::any_of(newcomers.begin(), newcomers.end(),
                       [member](const MemberPlace& one) { return one.member == member; });
  };
  std::map<std::uint32_t, std::vector<NumberedMember*>> hosts;
  for (auto& rank : ranks) hosts[rank.place.host].push_back(&rank);
  for (auto& [host, members] : hosts) {
    std::vector<bool> taken(members.size(), false);
    std::vector<NumberedMember*> rest;
    for (auto* const member : members) {
      if (!is_new(member->place.member)) {
        rest.push_back(member);
        continue;
      }
      member->local_rank = member->place.slot;
      taken[member->place.slot] = true;
    }
    std::sort(rest.begin(), rest.end(), [](const NumberedMember* a, const NumberedMember* b) {
      return a->place.slot < b->place.slot;
    });
    std::uint32_t next = 0;
    for (auto* const member : rest) {
      while (taken[next]) ++next;
      member->local_rank = next++;
    }
  }
}

}  // namespace

GenerationNumbers number_members(const std::vector<Survivor>& survivors,
                                 std::vector<MemberPlace> newcomers) {
  GenerationNumbers numbers;
  numbers.misfits = take_misfits(survivors, newcomers);
  const std::size_t size = survivors.size() + newcomers.size();
  std::vector<std::optional<MemberPlace>> ranks(size);
  std::vector<MemberPlace> rest;  // those without a rank so far, in order
  const bool zero_is_free = survivors.front().rank != 0;
  for (const auto& survivor : survivors) {
    if (zero_is_free && &survivor == &survivors.front())
      ranks[0] = survivor.place;
    else if (survivor.rank < size)
      ranks[survivor.rank] = survivor.place;
    else
      rest.push_back(survivor.place);
  }
  rest.insert(rest.end(), newcomers.begin(), newcomers.end());
  auto next = rest.begin();
  for (auto& rank : ranks) {
    if (!rank) rank = *next++;
    numbers.ranks.push_back({*rank, 0});
  }
  number_locally(numbers.ranks, newcomers);
  return numbers;
}

}  // namespace hvdrun
