#include "trace/gather.hpp"

#include <cstdint>
#include <numeric>

namespace libhvd {

Result<std::vector<std::byte>> gather_bytes(Communicator& communicator,
                                            std::span<const std::byte> own,
                                            std::vector<std::size_t>* sizes) {
  const CallOptions options{.name = "timeline"};
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto size = static_cast<std::int64_t>(own.size());
  std::vector<std::int64_t> all(ranks);
  HVD_CHECK(communicator.allgather(&size, 1, 1, HVD_INT64, all.data(), ranks, nullptr, options));
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(std::accumulate(all.begin(), all.end(), std::int64_t{0})));
  if (!bytes.empty()) {
    HVD_CHECK(communicator.allgather(own.data(), own.size(), 1, HVD_UINT8, bytes.data(),
                                     bytes.size(), nullptr, options));
  }
  if (sizes != nullptr) sizes->assign(all.begin(), all.end());
  return bytes;
}

Result<void> gather_text(Communicator& communicator, const std::function<std::string()>& next,
                         const std::function<void(std::string_view)>& sink) {
  while (true) {
    const std::string own = next();
    std::vector<std::size_t> sizes;
    HVD_TRY(const auto parts, gather_bytes(communicator, std::as_bytes(std::span(own)), &sizes));
    if (parts.empty()) return {};
    if (communicator.rank() != 0) continue;
    std::string_view left(reinterpret_cast<const char*>(parts.data()), parts.size());
    for (const std::size_t size : sizes) {
      if (size > 0) sink(left.substr(0, size));
      left.remove_prefix(size);
    }
  }
}

}  // namespace libhvd
