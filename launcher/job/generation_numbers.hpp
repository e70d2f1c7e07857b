// Which rank and local rank each member has in a generation. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace hvdrun {

// The slot is the member's place on its host: that of its GPU.
struct MemberPlace {
  std::uint32_t member = 0;
  std::uint32_t host = 0;
  std::uint32_t slot = 0;
};

struct NumberedMember {
  MemberPlace place;
  std::uint32_t local_rank = 0;
};

// A member that was in the last generation.
struct Survivor {
  MemberPlace place;
  std::uint32_t rank = 0;  // then
};

// Numbers the members of a generation of n ranks. Survivors whose rank is below n keep it. Other
// survivors, and then newcomers, get the free ranks from below. Rank 0 is a survivor: if it is
// free, the lowest survivor gets it. So few ranks change, and rank 0 has old state.
//
// A newcomer's local rank is its slot, by which it chooses its GPU, if its host has as many ranks.
// The others have chosen theirs, a newcomer in its first hvd_init: they get the other local ranks
// in the order of their slots. Returns the members in the order of ranks. `survivors`: at least
// one, in the order of ranks.
std::vector<NumberedMember> number_members(const std::vector<Survivor>& survivors,
                                           const std::vector<MemberPlace>& newcomers);

}  // namespace hvdrun
