#include "checkpoint/archive.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>

#include <unistd.h>

namespace libhvd::checkpoint {
namespace {

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    std::fprintf(stderr, "hvd: cannot delete the old checkpoint %s: %s\n", path.c_str(),
                 std::strerror(errno));
}

// The checkpoints whose index can be read.
std::vector<Kept> read_indexes(const std::string& folder, const std::vector<FileName>& names) {
  std::vector<Kept> kept;
  for (const FileName& name : names) {
    if (name.is_part) continue;
    const auto file = DataFile::open(folder + "/" + name.text());
    if (file.ok()) kept.push_back({name.step, name.save, file->index().metric});
  }
  return kept;
}

}  // namespace

Outcome Archive::read() {
  HVD_TRY(const std::vector<FileName> names, list_folder(folder_));
  for (const FileName& name : names) last_save_ = std::max(last_save_, name.save);
  kept_ = read_indexes(folder_, names);
  return Done{};
}

void Archive::remove_stray_parts() {
  const auto names = list_folder(folder_);
  if (!names.ok()) return;
  std::set<std::pair<std::uint64_t, std::uint64_t>> whole;
  for (const FileName& name : *names) {
    if (!name.is_part) whole.emplace(name.step, name.save);
  }
  for (const FileName& name : *names) {
    if (name.is_part && !whole.contains({name.step, name.save}))
      remove_file(folder_ + "/" + name.text());
  }
}

std::vector<Kept> Archive::add(const Kept& added) {
  kept_.push_back(added);
  std::vector<Kept> rest = superfluous(kept_, retention_.keep_last, retention_.best);
  for (const Kept& kept : rest) std::erase(kept_, kept);
  return rest;
}

void Archive::forget(const FileName& name) {
  std::erase_if(kept_,
                [&](const Kept& kept) { return kept.step == name.step && kept.save == name.save; });
}

// The manifest goes first: without it the parts are no checkpoint, and are swept at the next open.
void delete_checkpoints(const std::string& folder, const std::vector<Kept>& superfluous) {
  for (const Kept& kept : superfluous) {
    remove_file(folder + "/" + FileName{kept.step, kept.save}.text());
    const auto names = list_folder(folder);
    if (!names.ok()) return;
    for (const FileName& name : *names) {
      if (name.is_part && name.step == kept.step && name.save == kept.save)
        remove_file(folder + "/" + name.text());
    }
  }
}

Result<Search> Search::begin(const std::string& folder, hvd_best by) {
  Search search(folder, by);
  HVD_CHECK(search.look());
  return search;
}

// Lists what has not been tried yet.
Outcome Search::look() {
  HVD_TRY(names_, list_folder(folder_));
  std::erase_if(names_, [](const FileName& name) { return name.is_part; });
  if (by_ != HVD_BEST_NONE && !names_.empty()) {
    const std::vector<Kept> sorted = by_metric(read_indexes(folder_, names_), by_);
    if (sorted.empty())
      return fail(HVD_ERROR_INVALID_ARGUMENT,
                  "no checkpoint in " + folder_ + " has a finite metric, so none is the best");
    names_.clear();
    for (const Kept& kept : sorted) names_.push_back({kept.step, kept.save});
  }
  std::erase_if(names_, [this](const FileName& name) {
    return std::ranges::find(tried_, name) != tried_.end();
  });
  std::ranges::reverse(names_);
  return Done{};
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
      HVD_CHECK(look());
    } else {
      tell_skipped(path, file.error().message);
    }
  }
  if (skipped_ == 0) return std::optional<Candidate>();
  return fail(HVD_ERROR_SYSTEM, "no checkpoint in " + folder_ + " can be read (" +
                                    std::to_string(skipped_) +
                                    " skipped); the first: " + first_reason_);
}

void Search::skip(const Candidate& candidate, const std::string& why) {
  tell_skipped(candidate.path, why);
}

void Search::tell_skipped(const std::string& path, const std::string& why) {
  std::fprintf(stderr, "hvd: skipped %s: %s\n", path.c_str(), why.c_str());
  if (skipped_++ == 0) first_reason_ = path + ": " + why;
}

}  // namespace libhvd::checkpoint
