// Bytes on their way to a descriptor: appended at the end, dropped from the front, always
// contiguous, so that one write(2) takes all. A plain value that one sink owns; nothing fails.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

namespace hvdrun {

class ByteQueue {
 public:
  const char* data() const { return bytes_.get() + head_; }
  std::size_t size() const { return tail_ - head_; }
  bool empty() const { return head_ == tail_; }
  std::string_view view() const { return {data(), size()}; }

  // Returns room for `count` bytes after the last one. Bytes put there belong to the queue once
  // added() is called. Valid until the next call of room().
  char* room(std::size_t count) {
    if (capacity_ - tail_ < count) make_room(count);
    return bytes_.get() + tail_;
  }
  void added(std::size_t count) { tail_ += count; }

  void append(std::string_view bytes) {
    if (bytes.empty()) return;
    std::memcpy(room(bytes.size()), bytes.data(), bytes.size());
    added(bytes.size());
  }

  void drop(std::size_t count);
  void clear() { drop(size()); }

 private:
  void make_room(std::size_t count);

  std::unique_ptr<char[]> bytes_;
  std::size_t capacity_ = 0;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
};

}  // namespace hvdrun
