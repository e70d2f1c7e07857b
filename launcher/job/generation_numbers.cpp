#include "job/generation_numbers.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

namespace hvdrun {
namespace {

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
      if (!is_new(member->place.member) || member->place.slot >= members.size()) {
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

std::vector<NumberedMember> number_members(const std::vector<Survivor>& survivors,
                                           const std::vector<MemberPlace>& newcomers) {
  std::vector<NumberedMember> numbered;
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
    numbered.push_back({*rank, 0});
  }
  number_locally(numbered, newcomers);
  return numbered;
}

}  // namespace hvdrun
