// A table from the hash of a name to a number. It does what std::unordered_map does, but a lookup
// touches one cache line. A plain value, for one thread at a time.
//
// Open addressing with linear probing (Knuth, The Art of Computer Programming, volume 3, section
// 6.4, algorithms L and R). The keys are hashes already, and never 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace libhvd {

class NameTable {
 public:
  using Value = std::uint32_t;
  static constexpr Value kNone = ~Value{0};

  // Returns kNone if the name is not in the table.
  Value find(std::uint64_t name) const { return places_[place_of(name)].value; }

  // Returns the name's value. A new name has kNone, which the caller replaces before the next call.
  Value& at(std::uint64_t name);

  void erase(std::uint64_t name);

 private:
  struct Place {
    std::uint64_t name = 0;  // 0: free
    Value value = kNone;
  };

  std::size_t home_of(std::uint64_t name) const { return name & (places_.size() - 1); }
  std::size_t after(std::size_t place) const { return (place + 1) & (places_.size() - 1); }

  // Returns the place where the name is, or where it would be put.
  std::size_t place_of(std::uint64_t name) const {
    std::size_t place = home_of(name);
    while (places_[place].name != name && places_[place].name != 0) place = after(place);
    return place;
  }

  void grow();

  std::vector<Place> places_ = std::vector<Place>(16);  // a power of two, at most half in use
  std::size_t used_ = 0;
};

}  // namespace libhvd
