#include "checkpoint/save.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <set>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace libhvd::checkpoint {

Result<void> Snapshot::take(std::span<const Item> items, std::span<const Part> parts,
                            std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t bytes = end - begin;
  if (bytes > memory_.size()) {
    memory_ = Mapping();  // first, so that there are never two
    void* const address =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
      return fail_errno("no memory for a copy of the state (" + std::to_string(bytes) + " bytes)",
                        errno);
    memory_ = Mapping(address, bytes);
    ::madvise(address, bytes, MADV_HUGEPAGE);  // a hint
  }
  std::uint64_t done = begin;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::uint64_t from = std::max(begin, parts[i].offset);
    const std::uint64_t to = std::min(end, parts[i].offset + parts[i].description.bytes);
    if (from >= to) continue;
    std::memset(memory_.data() + (done - begin), 0, from - done);  // what lies between parts
    std::memcpy(memory_.data() + (from - begin), items[i].data + (from - parts[i].offset),
                to - from);
    done = to;
  }
  if (done < end) std::memset(memory_.data() + (done - begin), 0, end - done);
  return {};
}

namespace {

// Low enough to give way to training, and still a tenth of a core that others keep busy: whoever
// waits for the writing should not wait for ever. It cannot be raised again when somebody does.
constexpr int kPriority = 10;

Result<void> run(const std::function<Result<void>()>& work) {
  // Linux gives each thread a nice value of its own.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kPriority);
  try {
    return work();
  } catch (const std::exception& exception) {
    return fail(HVD_ERROR_SYSTEM, std::string("a checkpoint was not written: ") + exception.what());
  }
}

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

Result<void> Background::start(std::function<Result<void>()> work) {
  error_.reset();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread
  Result<void> outcome;
  try {
    thread_ = std::thread([this, work = std::move(work)] {
      if (Result<void> done = run(work); !done.ok()) error_ = std::move(done.error());
    });
  } catch (const std::system_error& error) {
    outcome = fail_errno("cannot start a thread that writes the checkpoint", error.code().value());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return outcome;
}

Result<void> Background::wait() {
  if (thread_.joinable()) thread_.join();
  if (auto error = std::exchange(error_, std::nullopt)) return std::move(*error);
  return {};
}

Result<void> Archive::read() {
  HVD_TRY(const std::vector<FileName> names, list_folder(folder_));
  for (const FileName& name : names) last_save_ = std::max(last_save_, name.save);
  kept_ = read_indexes(folder_, names);
  return {};
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
Result<void> Search::look() {
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
