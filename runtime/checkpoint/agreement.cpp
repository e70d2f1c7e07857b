#include "checkpoint/agreement.hpp"

#include "checkpoint/format.hpp"

#include <vector>

namespace libhvd::checkpoint {
namespace {

Result<void> share_bytes_of(Communicator& communicator, std::string& bytes, int root) {
  std::uint64_t length = bytes.size();
  HVD_CHECK(communicator.broadcast(&length, sizeof length, HVD_UINT8, root, call_options()));
  bytes.resize(length);
  return communicator.broadcast(bytes.data(), bytes.size(), HVD_UINT8, root, call_options());
}

}  // namespace

const CallOptions& call_options() {
  static const auto* const options = new CallOptions{.name = "checkpoint", .fault = {}};
  return *options;
}

Result<std::optional<Error>> first_failure(Communicator& communicator, const Result<void>& own) {
  std::int64_t failed = own.ok() ? 0 : communicator.size() - communicator.rank();
  HVD_CHECK(communicator.allreduce(&failed, &failed, 1, HVD_INT64, HVD_MAX, call_options()));
  if (failed == 0) return std::optional<Error>();
  const int culprit = communicator.size() - static_cast<int>(failed);
  hvd_status status = own.ok() ? HVD_OK : own.error().status;
  std::string text = own.ok() ? "" : own.error().message;
  HVD_CHECK(communicator.broadcast(&status, 1, HVD_INT32, culprit, call_options()));
  HVD_CHECK(share_bytes_of(communicator, text, culprit));
  if (culprit == communicator.rank()) return std::optional(own.error());
  return std::optional(
      fail(status, "rank " + std::to_string(communicator.number(culprit)) + ": " + text));
}

Result<void> agree(Communicator& communicator, const Result<void>& own) {
  HVD_TRY(const auto failed, first_failure(communicator, own));
  if (failed) return *failed;
  return {};
}

Result<bool> true_everywhere(Communicator& communicator, bool own) {
  std::uint8_t all = own ? 1 : 0;
  HVD_CHECK(communicator.allreduce(&all, &all, 1, HVD_UINT8, HVD_MIN, call_options()));
  return all != 0;
}

Result<bool> same_everywhere(Communicator& communicator, std::int64_t number) {
  std::int64_t bounds[2] = {number, ~number};  // ~: so that the smallest becomes the largest
  HVD_CHECK(communicator.allreduce(bounds, bounds, 2, HVD_INT64, HVD_MAX, call_options()));
  return bounds[0] == ~bounds[1];
}

Result<void> agree_on(Communicator& communicator, std::uint64_t number, const char* mismatch) {
  HVD_TRY(const bool same, same_everywhere(communicator, static_cast<std::int64_t>(number)));
  if (same) return {};
  return fail(HVD_ERROR_MISMATCH, mismatch);
}

Result<void> agree_on_state(Communicator& communicator, std::span<const Description> parts,
                            bool exact) {
  HVD_TRY(const bool same, same_everywhere(communicator, fingerprint(parts, exact)));
  if (same) return {};
  std::string text = encode_descriptions(parts);
  HVD_CHECK(share_bytes(communicator, text));
  HVD_TRY(const std::vector<Description> first, decode_descriptions(text));
  const std::string differences = find_differences(first, parts, exact);
  Result<void> own;
  if (!differences.empty())
    own = fail(HVD_ERROR_MISMATCH, "the state is not the same as rank 0's; here: " + differences);
  HVD_CHECK(agree(communicator, own));
  return fail(HVD_ERROR_MISMATCH, "the ranks have the same items in another order");
}

Result<std::uint64_t> share_number(Communicator& communicator, std::uint64_t number) {
  HVD_CHECK(communicator.broadcast(&number, sizeof number, HVD_UINT8, 0, call_options()));
  return number;
}

Result<void> share_bytes(Communicator& communicator, std::string& bytes) {
  return share_bytes_of(communicator, bytes, 0);
}

}  // namespace libhvd::checkpoint
