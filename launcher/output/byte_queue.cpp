#include "output/byte_queue.hpp"

#include <algorithm>

namespace hvdrun {
namespace {

constexpr std::size_t kFirstCapacity = 256 * 1024;
// An empty queue frees its memory if a very long line has made it larger than this.
constexpr std::size_t kKeptCapacity = 1024 * 1024;

}  // namespace

void ByteQueue::drop(std::size_t count) {
  head_ += count;
  if (head_ != tail_) return;
  head_ = tail_ = 0;
  if (capacity_ > kKeptCapacity) {
    bytes_.reset();
    capacity_ = 0;
  }
}

void ByteQueue::make_room(std::size_t count) {
  const std::size_t used = size();
  // Moves the bytes down only if they are no more than those written since the last move. Then each
  // byte is moved at most once on average.
  if (used <= head_ && used + count <= capacity_) {
    std::memcpy(bytes_.get(), data(), used);
  } else {
    const std::size_t capacity = std::max({kFirstCapacity, capacity_ * 2, used + count});
    auto bytes = std::make_unique_for_overwrite<char[]>(capacity);
    if (used > 0) std::memcpy(bytes.get(), data(), used);
    bytes_ = std::move(bytes);
    capacity_ = capacity;
  }
  head_ = 0;
  tail_ = used;
}

}  // namespace hvdrun
