// The slots of a job that gets new ranks (--replace, --spares): places for one process each, with
// its GPU and cores. Which are free, and which are left out because processes fail in them.
//
// A value for its owner's thread. Nothing fails.
#pragma once

#include "model/placement.hpp"

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace hvdrun {

class Slots {
 public:
  struct Slot {
    std::size_t host = 0;
    RankPlacement place = {};  // its local rank is the slot's number on the host
  };

  // Adds a slot, with a process in it or free.
  void add(Slot slot, bool taken);

  // Return the slots that are not left out, by host and number; the first: those of them that are
  // free.
  std::vector<Slot> free() const;
  std::vector<Slot> all() const;

  void take(std::size_t host, int number) { entry(host, number).taken = true; }

  // What is left out from now on.
  enum class LeftOut { nothing, slot, host };
  // The process in the slot has ended. `committed`: it was in the job, and committed a state there.
  // After several that did not, one after the other, the slot is left out; after several such
  // slots, the host.
  LeftOut end(std::size_t host, int number, bool committed);
  // The last process in the slot had committed a state after all.
  void forgive(std::size_t host, int number) { entry(host, number).failures = 0; }

 private:
  struct Entry {
    Slot slot = {};
    bool taken = false;
    bool left_out = false;
    int failures = 0;  // one after the other
  };
  Entry& entry(std::size_t host, int number) { return entries_[{host, number}]; }

  std::map<std::pair<std::size_t, int>, Entry> entries_;  // by host and number
};

inline constexpr int kMostFailuresInSlot = 3;
inline constexpr int kMostSlotsLeftOut = 3;  // of a host

}  // namespace hvdrun
