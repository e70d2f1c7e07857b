#include "checkpoint/agreement.hpp"

#include "checkpoint/checkpoint_file.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/format.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace libhvd::checkpoint {
namespace {

Result<void> share_bytes_of(Communicator& communicator, std::string& bytes, int root) {
  std::uint64_t length = bytes.size();
  HVD_CHECK(communicator.broadcast(&length, sizeof length, HVD_UINT8, root, call_options()));
  bytes.resize(length);
  return communicator.broadcast(bytes.data(), bytes.size(), HVD_UINT8, root, call_options());
}

// A listing is work for the server of a parallel file system: the longer the wait has lasted, the
// rarer they are.
constexpr std::chrono::milliseconds kShortestPause{10};
constexpr std::chrono::milliseconds kLongestPause{1000};
constexpr int kPausesInWait = 4;

// The part files of this save that are there. By a listing and not by asking for each: NFS
// remembers for long that a name was not there.
Result<std::set<std::uint64_t>> list_parts(const std::string& folder, const Index& manifest) {
  HVD_TRY(const std::vector<FileName> names, list_folder(folder));
  std::set<std::uint64_t> parts;
  for (const FileName& name : names) {
    if (name.is_part && name.step == manifest.step && name.save == manifest.save &&
        name.writer == manifest.writer) {
      parts.insert(name.part);
    }
  }
  return parts;
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

void PartWatch::reset() {
  const std::lock_guard lock(mutex_);
  end_.reset();
}

void PartWatch::timeout(std::chrono::milliseconds at_most) {
  {
    const std::lock_guard lock(mutex_);
    const auto end = Clock::now() + at_most;
    end_ = end_ ? std::min(*end_, end) : end;
  }
  changed_.notify_all();
}

bool PartWatch::pause(Clock::time_point begin) {
  std::unique_lock lock(mutex_);
  const auto now = Clock::now();
  if (end_ && now >= *end_) return false;
  auto until = now + std::clamp<Clock::duration>((now - begin) / kPausesInWait, kShortestPause,
                                                 kLongestPause);
  if (end_) until = std::min(until, *end_);
  const auto end = end_;
  changed_.wait_until(lock, until, [&] { return end_ != end; });
  return true;
}

Result<Index> PartWatch::wait(const std::string& folder, Index manifest) {
  std::vector<bool> have(manifest.part_files.size());
  manifest.checksums.assign(manifest.blocks.count(), 0);
  std::uint64_t missing = 0;
  for (std::size_t part = 0; part < have.size(); ++part) {
    have[part] = manifest.part_files[part].count == 0;
    missing += have[part] ? 0 : 1;
  }
  const Clock::time_point begin = Clock::now();
  bool patient = true;
  while (missing > 0) {
    HVD_TRY(const std::set<std::uint64_t> there, list_parts(folder, manifest));
    for (const std::uint64_t part : there) {
      if (part >= have.size() || have[part]) continue;
      Index expected = manifest;
      expected.range = manifest.part_files[part];
      const FileName name{manifest.step, manifest.save, true, manifest.writer, part};
      HVD_TRY(const auto checksums, read_part_checksums(folder + "/" + name.text(), expected));
      std::ranges::copy(checksums, manifest.checksums.begin() +
                                       static_cast<std::ptrdiff_t>(expected.range.first));
      have[part] = true;
      --missing;
    }
    if (missing == 0) break;
    if (!patient)
      return fail(HVD_ERROR_SYSTEM, "the checkpoint of step " + std::to_string(manifest.step) +
                                        " was given up: " + std::to_string(missing) +
                                        " parts of other ranks are not in " + folder);
    patient = pause(begin);
  }
  return manifest;
}

}  // namespace libhvd::checkpoint
