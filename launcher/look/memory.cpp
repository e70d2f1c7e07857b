#include "look/memory.hpp"

#include <algorithm>
#include <cerrno>

#include <sys/uio.h>

namespace hvdrun {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

std::size_t Memory::read_some(Address from, void* to, std::size_t size) const {
  std::size_t done = 0;
  while (done < size) {
    const iovec here{static_cast<char*>(to) + done, size - done};
    const iovec there{reinterpret_cast<void*>(from + done), size - done};  // NOLINT
    const ssize_t got = ::process_vm_readv(pid_, &here, 1, &there, 1, 0);
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

std::string Memory::text(Address from, std::size_t most) const {
  std::string text;
  while (text.size() < most) {
    const std::size_t to_page_end = kPage - (from + text.size()) % kPage;
    const std::size_t size = std::min(most - text.size(), to_page_end);
    std::string part(size, '\0');
    part.resize(read_some(from + text.size(), part.data(), size));
    const auto end = part.find('\0');
    text += part.substr(0, end);
    if (end != std::string::npos || part.size() < size) break;
  }
  return text;
}

bool Memory::allowed() const {
  char byte = 0;
  const iovec here{&byte, 1};
  const iovec there{nullptr, 1};
  return ::process_vm_readv(pid_, &here, 1, &there, 1, 0) >= 0 || errno == EFAULT;
}

}  // namespace hvdrun
