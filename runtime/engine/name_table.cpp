#include "engine/name_table.hpp"

#include <utility>

namespace libhvd {

NameTable::Value& NameTable::at(std::uint64_t name) {
  std::size_t place = place_of(name);
  if (places_[place].name == 0) {
    if (2 * (used_ + 1) > places_.size()) {
      grow();
      place = place_of(name);
    }
    places_[place].name = name;
    ++used_;
  }
  return places_[place].value;
}

void NameTable::grow() {
  const std::vector<Place> old = std::exchange(places_, std::vector<Place>(2 * places_.size()));
  for (const Place& place : old) {
    if (place.name != 0) places_[place_of(place.name)] = place;
  }
}

// Moves names that come later into the hole, if a lookup would stop at the hole before it finds
// them.
void NameTable::erase(std::uint64_t name) {
  std::size_t hole = place_of(name);
  if (places_[hole].name == 0) return;
  for (std::size_t next = after(hole); places_[next].name != 0; next = after(next)) {
    const std::size_t from_home = (next - home_of(places_[next].name)) & (places_.size() - 1);
    const std::size_t from_hole = (next - hole) & (places_.size() - 1);
    if (from_home < from_hole) continue;
    places_[hole] = places_[next];
    hole = next;
  }
  places_[hole] = {};
  --used_;
}

}  // namespace libhvd
