// Another process's memory, read by process_vm_readv(2). Whatever is read may be garbage, also a
// pointer or a length: each function has a bound, and returns nothing if the memory is not there.
// Any thread; blocks while the kernel brings in pages that were swapped out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include <sys/types.h>

namespace hvdrun {

using Address = std::uint64_t;

class Memory {
 public:
  explicit Memory(pid_t pid) : pid_(pid) {}

  // Reads up to `size` bytes. Returns how many there are before the first page that is missing.
  std::size_t read_some(Address from, void* to, std::size_t size) const;
  // Reads all of `size` bytes. Returns false if some are missing.
  [[nodiscard]] bool read(Address from, void* to, std::size_t size) const {
    return read_some(from, to, size) == size;
  }

  template <class T>
  std::optional<T> get(Address from) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    if (!read(from, &value, sizeof value)) return std::nullopt;
    return value;
  }
  // Returns the pointer at an address; 0 if there is none.
  Address pointer(Address from) const { return get<Address>(from).value_or(0); }

  // Returns the text up to its NUL, at most `most` bytes.
  std::string text(Address from, std::size_t most) const;

  // Returns whether this process may read that one. Reading nothing asks only for permission.
  bool allowed() const;

 private:
  pid_t pid_;
};

}  // namespace hvdrun
