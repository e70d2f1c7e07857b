// The calls that a rank has made as posts (StepBarrier::post) since the last whole step. Plain
// values. A rank cannot see at once whether a post fits together with the calls of all other ranks.
// So the hash of these calls is part of the next call's header, and the list is shown when that
// header differs from another rank's.
#pragma once

#include "collective/call.hpp"
#include "transport/segment_layout.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace libhvd {

// It is in shared memory while it is shown, so it has no pointers.
struct PostedCalls {
  std::uint32_t count = 0;
  CallHeader headers[kPosts - 1] = {};
};

class Posts {
 public:
  void add(const CallHeader& header) {
    if (calls_.count == std::size(calls_.headers)) return;  // a whole step comes before that
    calls_.headers[calls_.count++] = header;
    const auto mix = [&](std::uint64_t value) {
      hash_ = std::rotl((hash_ ^ value) * 0x9e3779b97f4a7c15u, 29);
    };
    mix(header.what);
    mix(header.count);
    mix(header.row_size ^ std::rotl(header.hash, 7));
  }
  void clear() {
    calls_.count = 0;
    hash_ = 0;
  }

  std::uint64_t hash() const { return hash_; }  // 0 if there are none
  const PostedCalls& calls() const { return calls_; }

 private:
  PostedCalls calls_;
  std::uint64_t hash_ = 0;
};

}  // namespace libhvd
