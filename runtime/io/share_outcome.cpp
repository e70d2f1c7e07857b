#include "io/share_outcome.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace libhvd {
namespace {

// Messages are cut after this many bytes.
constexpr std::size_t kLongestText = 64 * 1024;

struct OutcomeHeader {
  std::int32_t status;
  std::uint32_t length;
};

}  // namespace

Result<void> share_outcome(Communicator& communicator, const Result<void>& own, int root,
                           CallOptions options) {
  // The root of a broadcast with a name learns of another rank's fault.
  if (options.name == nullptr) options.name = "outcome";
  const bool is_root = communicator.rank() == root;
  OutcomeHeader header{HVD_OK, 0};
  std::string text;
  if (is_root && !own.ok()) {
    text = own.error().message.substr(0, kLongestText);
    header = {own.error().status, static_cast<std::uint32_t>(text.size())};
  }
  HVD_CHECK(communicator.broadcast(&header, sizeof header, HVD_UINT8, root, options));
  if (header.status == HVD_OK) return {};
  text.resize(header.length);
  HVD_CHECK(communicator.broadcast(text.data(), text.size(), HVD_UINT8, root, options));
  if (is_root) return own;
  return fail(header.status, "rank " + std::to_string(communicator.number(root)) + ": " + text);
}

}  // namespace libhvd
