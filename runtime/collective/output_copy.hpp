// Copies what ranks show into the output of a collective. If what a rank touches is larger than its
// share of the last cache, the copies bypass the caches: a store to a line that is in none would
// first read it from memory. Runs on the thread of the call. Nothing here can fail.
#pragma once

#include <cstddef>
#include <cstring>

namespace libhvd {

class OutputCopy {
 public:
  // `touched`: the bytes of the call's input and output together. `ranks`: how many share the
  // cache, at most.
  OutputCopy(std::size_t touched, int ranks);

  // Copies as memcpy does, but a pointer may be null if there are 0 bytes. Other threads see the
  // copy as they see one by memcpy.
  void operator()(std::byte* to, const std::byte* from, std::size_t bytes) const {
    if (bytes == 0) return;
    if (bypasses_caches_) {
      copy_past_caches(to, from, bytes);
    } else {
      std::memcpy(to, from, bytes);
    }
  }

 private:
  static void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes);

  bool bypasses_caches_;
};

}  // namespace libhvd
