// Numbers by the hash of a name: what std::unordered_map would do, but with one cache line a look.
//
// Open addressing with linear probing (Knuth, The Art of Computer Programming, volume 3, section
// 6.4, algorithms L and R). The keys are hashes already, never 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace libhvd {

class NameTable {
 public:
  using Value = std::uint32_t;
  static constexpr Value kNone = ~Value{0};

  // kNone: the name is not there.
  Value find(std::uint64_t name) const { return places_[place_of(name)].value; }

  // The name's value, kNone when it is new; that is for the caller to replace before the next call.
  Value& at(std::uint64_t name);

  void erase(std::uint64_t name);

 private:
  struct Place {
    std::uint64_t name = 0;  // 0: free
    Value value = kNone;
  };

  std::size_t home_of(std::uint64_t name) const { return name & (places_.size() - 1); }
  std::size_t after(std::size_t place) const { return (place + 1) & (places_.size() - 1); }

  // Where the name is, or would be put.
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
