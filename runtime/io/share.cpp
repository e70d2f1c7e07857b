#include "io/share.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace libhvd {
namespace {

// A text longer than this is cut: it is a message, not data.
constexpr std::size_t kLongestText = 64 * 1024;

struct Header {
  std::int32_t status;
  std::uint32_t length;
};

}  // namespace

Outcome share_outcome(Communicator& communicator, const Outcome& own, int root,
                      const CallOptions& options) {
  const bool is_root = communicator.rank() == root;
  Header header{HVD_OK, 0};
  std::string text;
  if (is_root && !own.ok()) {
    text = own.error().message.substr(0, kLongestText);
    header = {own.error().status, static_cast<std::uint32_t>(text.size())};
  }
  HVD_CHECK(communicator.broadcast(&header, sizeof header, HVD_UINT8, root, options));
  if (header.status == HVD_OK) return Done{};
  text.resize(header.length);
  HVD_CHECK(communicator.broadcast(text.data(), text.size(), HVD_UINT8, root, options));
  if (is_root) return own;
  return fail(header.status, "rank " + std::to_string(communicator.number(root)) + ": " + text);
}

}  // namespace libhvd
