#include "checkpoint/part_watch.hpp"

#include "checkpoint/checkpoint_file.hpp"
#include "checkpoint/folder.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace libhvd::checkpoint {
namespace {

// A listing is work for the server of a parallel file system. So the pause between two listings
// grows with the wait: it is a quarter of the time waited so far, within these limits.
constexpr std::chrono::milliseconds kShortestPause{10};
constexpr std::chrono::milliseconds kLongestPause{1000};
constexpr int kPausesInWait = 4;

// Returns the numbers of this save's part files in the folder. Lists the folder instead of looking
// for each file, because NFS remembers for a long time that a name was missing.
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
