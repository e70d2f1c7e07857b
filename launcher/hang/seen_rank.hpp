// What was seen of a rank at one moment, and the words for it. Plain values and functions, for any
// thread.
#pragma once

#include "hang/hang_facts.hpp"
#include "hang/rank_place.hpp"

#include <string>

namespace hvdrun {

struct Seen {
  const RankFacts* facts = nullptr;
  RankPlace place;
};

// Returns where the rank is: of several programs, the one that is most telling. `facts` must
// outlive it.
Seen see(const RankFacts& facts);

// Returns whether the process is stopped, in a debugger or frozen.
bool cannot_run(const RankPlace& place);

// Returns whether the rank calls collectives of libhvd, and has not waited long in one.
bool passes_through(const Seen& rank);

// Returns "in loader.py:214 read(), sleeping", "stopped by a signal, in …".
std::string words_of(const Seen& rank);

// Returns what ranks of a group have in common. Times differ from rank to rank, and short ones are
// not in the words; places say enough.
std::string key_of(const RankPlace& place);

// Returns `allreduce "grad.3"` for the status page's "allreduce grad.3".
std::string title_of(const std::string& collective);

}  // namespace hvdrun
