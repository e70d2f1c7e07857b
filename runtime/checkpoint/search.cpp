#include "checkpoint/search.hpp"

#include "checkpoint/archive.hpp"
#include "checkpoint/retention.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include <unistd.h>

namespace libhvd::checkpoint {

Result<Search> Search::begin(const std::string& folder, hvd_best by) {
  Search search(folder, by);
  HVD_CHECK(search.list_untried());
  return search;
}

// Lists the checkpoints that have not been tried yet.
Result<void> Search::list_untried() {
  HVD_TRY(names_, list_folder(folder_));
  std::erase_if(names_, [](const FileName& name) { return name.is_part; });
  if (by_ != HVD_BEST_NONE && !names_.empty()) {
    const std::vector<SavedCheckpoint> sorted = by_metric(read_indexes(folder_, names_), by_);
    if (sorted.empty())
      return fail(HVD_ERROR_INVALID_ARGUMENT,
                  "no checkpoint in " + folder_ + " has a finite metric, so none is the best");
    names_.clear();
    for (const SavedCheckpoint& checkpoint : sorted)
      names_.push_back({checkpoint.step, checkpoint.save});
  }
  std::erase_if(names_, [this](const FileName& name) {
    return std::ranges::find(tried_, name) != tried_.end();
  });
  std::ranges::reverse(names_);
  return {};
}

Result<std::optional<Search::Candidate>> Search::next() {
  while (!names_.empty()) {
    const FileName name = names_.back();
    names_.pop_back();
    tried_.push_back(name);
    const std::string path = folder_ + "/" + name.text();
    auto file = CheckpointFile::open(folder_, name);
    if (file.ok()) return std::optional(Candidate{name, path, std::move(*file)});
    if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
      HVD_CHECK(list_untried());
    } else {
      report_skipped(path, file.error().message);
    }
  }
  if (skipped_ == 0) return std::optional<Candidate>();
  return fail(HVD_ERROR_SYSTEM, "no checkpoint in " + folder_ + " can be read (" +
                                    std::to_string(skipped_) +
                                    " skipped); the first: " + first_reason_);
}

void Search::skip(const Candidate& candidate, const std::string& why) {
  report_skipped(candidate.path, why);
}

void Search::report_skipped(const std::string& path, const std::string& why) {
  std::fprintf(stderr, "hvd: skipped %s: %s\n", path.c_str(), why.c_str());
  if (skipped_++ == 0) first_reason_ = path + ": " + why;
}

}  // namespace libhvd::checkpoint
