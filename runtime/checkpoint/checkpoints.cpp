#include "checkpoint/checkpoints.hpp"

#include "base/process_environment.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/checkpoint_file.hpp"
#include "checkpoint/load.hpp"
#include "common/system.hpp"
#include "common/text.hpp"
#include "io/atomic_file.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace libhvd::checkpoint {
namespace {

using std::chrono::seconds;

// How long this host may take to see parts that other ranks have written (NFS caches listings).
constexpr seconds kUntilSeen{90};
// How long to wait for parts of ranks in an unknown state: they end about now, or have died.
constexpr seconds kUntilWritten{10};

// Returns the line of the lock file: "job 42 (host n1, pid 7, run 0123456789abcdef)".
std::string owner_line(const std::string& job, std::uint64_t writer) {
  char id[17];
  std::snprintf(id, sizeof id, "%016llx", static_cast<unsigned long long>(writer));
  return (job.empty() ? "a job" : "job " + job) + " (host " + local_host_name() + ", pid " +
         std::to_string(::getpid()) + ", run " + id + ")";
}

Result<std::uint64_t> random_number() {
  HVD_TRY(const auto bytes, random_bytes<8>());
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

std::vector<Description> descriptions_of(const Index& index) {
  std::vector<Description> parts;
  for (const Part& part : index.parts) parts.push_back(part.description);
  return parts;
}

// Returns the address of each part of the index in the items. Calls resize for bytes. Error: no
// memory, or an item has another number of bytes.
Result<Destinations> make_room(const Index& index, std::span<const Item> items) {
  std::unordered_map<std::string_view, const Item*> by_name;
  for (const Item& item : items) by_name.emplace(item.description.name, &item);
  Destinations destinations;
  for (const Part& part : index.parts) {
    const Item& item = *by_name.at(part.description.name);
    const std::uint64_t bytes = part.description.bytes;
    std::byte* to = item.data;
    if (item.resize) {
      to = item.resize(bytes);
      if (to == nullptr && bytes > 0)
        return fail(HVD_ERROR_SYSTEM, "no memory for the " + std::to_string(bytes) +
                                          " bytes of item " + quote_name(part.description.name));
    } else if (bytes != item.description.bytes) {
      return fail(HVD_ERROR_MISMATCH, "item " + quote_name(part.description.name) + " has " +
                                          std::to_string(bytes) + " bytes in the checkpoint, and " +
                                          std::to_string(item.description.bytes) +
                                          " bytes of room");
    }
    destinations.push_back(to);
  }
  return destinations;
}

constexpr const char* kOtherWhich = "the ranks look for different checkpoints";

Error unfit(const std::string& path, const std::string& differences) {
  return fail(HVD_ERROR_MISMATCH, "the checkpoint " + path +
                                      " does not fit the state; in the checkpoint: " + differences);
}

}  // namespace

Checkpoints::Checkpoints(std::string folder, Options options)
    : folder_(std::move(folder)),
      options_(std::move(options)),
      archive_(folder_, options_.retention) {}

Checkpoints::~Checkpoints() {
  static_cast<void>(close());
}

// ---- Opening

Result<std::unique_ptr<Checkpoints>> Checkpoints::open(Communicator& communicator,
                                                       const std::string& folder,
                                                       const Options& options) {
  Result<void> own;
  if (!options.fault.empty()) own = fail(HVD_ERROR_INVALID_ARGUMENT, options.fault);
  HVD_CHECK(agree(communicator, own));
  std::unique_ptr<Checkpoints> opened(new Checkpoints(folder, options));
  HVD_CHECK(opened->bind(communicator));
  return opened;
}

// Prepares the folder for the ranks of the communicator.
Result<void> Checkpoints::bind(Communicator& communicator) {
  const Retention& keep = options_.retention;
  const Description asked{folder_,
                          HVD_ITEM_BYTES,
                          {keep.keep_last, keep.best, options_.sharded, options_.read_only},
                          0};
  HVD_CHECK(agree_on(communicator,
                     static_cast<std::uint64_t>(fingerprint(std::span(&asked, 1), true)),
                     "the ranks open checkpoints with other folders or options"));
  rank_ = communicator.rank();
  size_ = communicator.size();
  Result<void> own;
  if (rank_ == 0) own = attempt([&] { return prepare_folder(); });
  HVD_CHECK(agree(communicator, own));
  HVD_TRY(writer_, share_number(communicator, writer_));
  if (rank_ != 0) own = attempt([&] { return check_folder_is_shared(); });
  const Result<void> seen = agree(communicator, own);
  if (rank_ == 0) ::unlink(marker_path().c_str());
  return seen;
}

Result<void> Checkpoints::rebind(Communicator& communicator) {
  HVD_CHECK(end_earlier_session(communicator));
  return bind(communicator);
}

// Waits for what the ranks have begun to write, and unlocks. Keeps an error of the last save for
// the next save() or wait(), unless ranks of its session are gone: then rank 0 of that session
// prints it, because the program knows already that its session has ended early.
Result<void> Checkpoints::end_earlier_session(Communicator& communicator) {
  Result<void> own = writing_.wait();
  HVD_TRY(const auto failed, first_failure(communicator, own));
  HVD_TRY(const bool complete, all_are_here(communicator));
  watch_.timeout(complete && !failed ? kUntilSeen : seconds(0));
  const Result<void> completed = completing_.wait();
  if (!completed.ok() && complete && own.ok()) own = completed;
  if (!completed.ok() && !complete)
    std::fprintf(stderr, "hvd: %s\n", completed.error().message.c_str());
  static_cast<void>(deleting_.wait());
  lock_ = FolderLock();
  if (unreported_) own = *unreported_;
  HVD_TRY(unreported_, first_failure(communicator, own));
  return {};
}

// Returns whether all ranks of the earlier session are among those of the communicator.
Result<bool> Checkpoints::all_are_here(Communicator& communicator) const {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::vector<std::uint64_t> writers(ranks);
  HVD_CHECK(communicator.allgather(&writer_, 1, sizeof writer_, HVD_UINT8, writers.data(), ranks,
                                   nullptr, call_options()));
  return std::count(writers.begin(), writers.end(), writer_) == size_;
}

// Returns the path of a file that exists only while the ranks open the folder. It has the name of a
// temporary file, so that the next open() removes it if this process dies.
std::string Checkpoints::marker_path() const {
  char name[64];
  std::snprintf(name, sizeof name, "/.hvd-%s.run.%016llx", kTemporaryKind,
                static_cast<unsigned long long>(writer_));
  return folder_ + name;
}

Result<void> Checkpoints::prepare_folder() {
  if (options_.read_only) {
    HVD_TRY([[maybe_unused]] const auto identity, FolderIdentity::of(folder_));
    return {};
  }
  HVD_CHECK(make_folders(folder_));
  HVD_TRY(writer_, random_number());
  HVD_TRY(lock_, FolderLock::take(folder_, owner_line(options_.job, writer_)));
  if (!lock_.holds())
    std::fprintf(stderr,
                 "hvd: the file system of %s has no locks: see to it that no other job writes "
                 "checkpoints there\n",
                 folder_.c_str());
  HVD_TRY(identity_, FolderIdentity::of(folder_));
  remove_temporary_files(folder_, kTemporaryKind, lock_.holds());
  HVD_CHECK(archive_.read());
  if (lock_.holds()) archive_.remove_stray_parts();
  if (!options_.sharded) return {};
  const Fd marker(::open(marker_path().c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!marker) return fail_errno("cannot create a file in " + folder_, errno);
  return {};
}

// Checks, on a rank other than 0 that writes, that it sees the same folder as rank 0.
Result<void> Checkpoints::check_folder_is_shared() {
  if (!writes() || options_.read_only) return {};
  HVD_TRY(identity_, FolderIdentity::of(folder_));
  if (::access(marker_path().c_str(), F_OK) == 0) return {};
  return fail(HVD_ERROR_INVALID_ARGUMENT,
              "the folder " + folder_ +
                  " is not the one that rank 0 sees under this name; sharded "
                  "checkpoints need a file system that all hosts share");
}

// ---- Saving

Result<void> Checkpoints::save(Communicator& communicator, std::span<const Item> items,
                               std::uint64_t step, std::optional<double> metric) {
  HVD_CHECK(wait_for_writing(communicator));
  HVD_CHECK(agree(communicator, attempt([&] { return take_snapshot(items, step, metric); })));
  HVD_CHECK(agree_on(communicator, step, "the ranks save checkpoints of different steps"));
  HVD_CHECK(agree_on_state(communicator, describe(items), options_.sharded));
  HVD_TRY(index_.save, share_number(communicator, rank_ == 0 ? archive_.next_save() : 0));
  Result<void> started = agree(communicator, attempt([this] { return start_writing(); }));
  if (started.ok() && options_.sharded)
    started = agree(communicator, attempt([this] { return start_completing(); }));
  if (!started.ok()) {
    abandon();
    return started;
  }
  auto before = std::exchange(unreported_, std::nullopt);
  if (!before) return {};
  before->message += " (the checkpoint of step " + std::to_string(step) + " is being written)";
  return std::move(*before);
}

Result<void> Checkpoints::take_snapshot(std::span<const Item> items, std::uint64_t step,
                                        std::optional<double> metric) {
  if (options_.read_only)
    return fail(HVD_ERROR_INVALID_ARGUMENT,
                "the checkpoints of " + folder_ + " were opened only to be read");
  if (std::string fault = find_fault(items); !fault.empty())
    return fail(HVD_ERROR_INVALID_ARGUMENT, std::move(fault));
  const auto ranks = static_cast<std::uint64_t>(options_.sharded ? size_ : 1);
  index_ = Index();
  index_.kind = options_.sharded ? FileKind::part : FileKind::whole;
  index_.step = step;
  index_.writer = writer_;
  index_.metric = metric;
  index_.ranks = static_cast<std::uint32_t>(size_);
  index_.parts = lay_out(describe(items));
  index_.blocks = cut(index_.parts, ranks);
  index_.range =
      share_of(index_.blocks, options_.sharded ? static_cast<std::uint64_t>(rank_) : 0, ranks);
  if (!writes()) return {};
  const std::uint64_t begin = index_.blocks.begin(index_.range.first);
  return snapshot_.take(items, index_.parts, begin, begin + index_.blocks.bytes(index_.range));
}

Result<void> Checkpoints::start_writing() {
  if (rank_ == 0 && index_.metric && !std::isfinite(*index_.metric))
    std::fprintf(stderr,
                 "hvd: the metric of step %llu is %g: this checkpoint can never be the best\n",
                 static_cast<unsigned long long>(index_.step), *index_.metric);
  if (!writes()) return {};
  HVD_TRY(const FolderIdentity now, FolderIdentity::of(folder_));
  if (now != *identity_)
    return fail(HVD_ERROR_SYSTEM, "the folder " + folder_ +
                                      " is not the one that was opened; is its file system still "
                                      "mounted?");
  return writing_.start([this] { return write_own_file(); });
}

// Starts to wait for the parts. Call it only when all ranks have begun theirs, so that an abandoned
// save is never completed.
Result<void> Checkpoints::start_completing() {
  if (rank_ != 0) return {};
  watch_.reset();
  return completing_.start([this] { return write_manifest(); });
}

std::string Checkpoints::own_path() const {
  FileName name{index_.step, index_.save};
  if (options_.sharded) {
    name = {index_.step, index_.save, true, writer_, static_cast<std::uint64_t>(rank_)};
  }
  return folder_ + "/" + name.text();
}

Result<void> Checkpoints::write_own_file() {
  Index index = index_;
  if (options_.sharded) {
    if (index.range.count == 0) return {};  // a rank without a share has no file
    index.parts.clear();
  }
  HVD_CHECK(write_file(own_path(), std::move(index), snapshot_.data()));
  return options_.sharded ? Result<void>() : start_deleting();
}

Result<void> Checkpoints::write_manifest() {
  Index manifest = index_;
  manifest.kind = FileKind::manifest;
  manifest.range = {0, manifest.blocks.count()};
  const auto ranks = static_cast<std::uint64_t>(size_);
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    manifest.part_files.push_back(share_of(manifest.blocks, rank, ranks));
  }
  HVD_TRY(manifest, watch_.wait(folder_, std::move(manifest)));
  const FileName name{manifest.step, manifest.save};
  HVD_CHECK(write_file(folder_ + "/" + name.text(), manifest, nullptr));
  return start_deleting();
}

// Starts to delete what is superfluous now that the checkpoint of index_ is durable.
Result<void> Checkpoints::start_deleting() {
  HVD_CHECK(deleting_.wait());
  auto superfluous = archive_.add({index_.step, index_.save, index_.metric});
  if (superfluous.empty()) return {};
  const auto work = [folder = folder_, superfluous = std::move(superfluous)]() -> Result<void> {
    delete_checkpoints(folder, superfluous);
    return {};
  };
  return deleting_.start(work).ok() ? Result<void>() : work();
}

// Waits for what is being written on all ranks, and returns the outcome.
Result<void> Checkpoints::finish(Communicator& communicator) {
  const bool was_writing = writing_.running();
  Result<void> written = agree(communicator, writing_.wait());
  if (!options_.sharded || !was_writing) return written;
  return finish_sharded(communicator, written);
}

// Waits for the manifest. Rank 0 must not wait for a part that another rank could not write. If the
// save failed, deletes this rank's part, which has no manifest.
Result<void> Checkpoints::finish_sharded(Communicator& communicator, const Result<void>& written) {
  watch_.timeout(written.ok() ? kUntilSeen : seconds(0));
  const Result<void> own = completing_.wait();
  Result<void> outcome = written.ok() ? agree(communicator, own) : written;
  if (!outcome.ok() && outcome.error().status != HVD_ERROR_PEER) ::unlink(own_path().c_str());
  return outcome;
}

// Ends what this rank has begun of a save that not all ranks could begin.
void Checkpoints::abandon() {
  static_cast<void>(writing_.wait());
  if (options_.sharded) ::unlink(own_path().c_str());
}

// Waits until nothing is being written on any rank. Keeps an error of the save for the next save()
// or wait(). Error: a rank is lost.
Result<void> Checkpoints::wait_for_writing(Communicator& communicator) {
  Result<void> outcome = finish(communicator);
  if (outcome.ok()) return {};
  if (outcome.error().status == HVD_ERROR_PEER) return outcome;
  unreported_ = outcome.error();
  return {};
}

Result<void> Checkpoints::wait(Communicator& communicator) {
  HVD_CHECK(wait_for_writing(communicator));
  if (auto error = std::exchange(unreported_, std::nullopt)) return std::move(*error);
  return {};
}

Result<void> Checkpoints::close() {
  Result<void> outcome = writing_.wait();
  watch_.timeout(outcome.ok() ? kUntilWritten : seconds(0));
  const Result<void> completed = completing_.wait();
  static_cast<void>(deleting_.wait());  // prints by itself what it cannot delete
  lock_ = FolderLock();
  return outcome.ok() ? completed : outcome;
}

// ---- Loading

Result<void> Checkpoints::begin_search(hvd_which which, std::optional<Search>& search) const {
  if (which != HVD_NEWEST && which != HVD_THE_BEST)
    return fail(HVD_ERROR_INVALID_ARGUMENT,
                "there is no hvd_which " + std::to_string(which) + " to look for");
  const hvd_best best = options_.retention.best;
  if (which == HVD_THE_BEST && best == HVD_BEST_NONE)
    return fail(
        HVD_ERROR_INVALID_ARGUMENT,
        "the best checkpoint of " + folder_ +
            " was asked for, but the folder was opened without saying which metric is best");
  if (rank_ != 0) return {};
  HVD_TRY(search, Search::begin(folder_, which == HVD_THE_BEST ? best : HVD_BEST_NONE));
  return {};
}

// Returns the next candidate of rank 0's search on all ranks; nullopt if there is none.
Result<std::optional<Found>> Checkpoints::share_next(
    Communicator& communicator, std::optional<Search>& search,
    std::optional<Search::Candidate>& candidate) const {
  candidate.reset();
  Result<void> own;
  if (search) {
    auto next = attempt([&] { return search->next(); });
    if (next.ok()) {
      candidate = std::move(*next);
    } else {
      own = next.error();
    }
  }
  HVD_CHECK(agree(communicator, own));
  std::string path = candidate ? candidate->path : "";
  std::string index = candidate ? encode_index(candidate->file.index()) : "";
  HVD_CHECK(share_bytes(communicator, path));
  if (path.empty()) return std::optional<Found>();
  HVD_CHECK(share_bytes(communicator, index));
  HVD_TRY(Index decoded, decode_index(index));
  return std::optional(Found{std::move(path), std::move(decoded)});
}

Result<std::optional<Found>> Checkpoints::find(Communicator& communicator, hvd_which which) {
  HVD_CHECK(wait_for_writing(communicator));
  std::optional<Search> search;
  std::optional<Search::Candidate> candidate;
  HVD_CHECK(agree_on(communicator, static_cast<std::uint64_t>(which), kOtherWhich));
  HVD_CHECK(agree(communicator, attempt([&] { return begin_search(which, search); })));
  return share_next(communicator, search, candidate);
}

Result<std::optional<Found>> Checkpoints::load(Communicator& communicator,
                                               std::span<const Item> items, hvd_which which) {
  HVD_CHECK(wait_for_writing(communicator));
  Result<void> own;
  if (std::string fault = find_fault(items); !fault.empty())
    own = fail(HVD_ERROR_INVALID_ARGUMENT, std::move(fault));
  HVD_CHECK(agree(communicator, own));
  const std::vector<Description> state = describe(items);
  HVD_CHECK(agree_on_state(communicator, state, false));
  std::optional<Search> search;
  std::optional<Search::Candidate> candidate;
  HVD_CHECK(agree_on(communicator, static_cast<std::uint64_t>(which), kOtherWhich));
  HVD_CHECK(agree(communicator, attempt([&] { return begin_search(which, search); })));
  while (true) {
    HVD_TRY(auto found, share_next(communicator, search, candidate));
    if (!found) return found;
    const std::vector<Description> parts = descriptions_of(found->index);
    if (const auto differences = find_differences(state, parts); !differences.empty())
      return unfit(found->path, differences);
    auto room = attempt([&] { return make_room(found->index, items); });
    own = room.ok() ? Result<void>() : Result<void>(room.error());
    HVD_CHECK(agree(communicator, own));
    HVD_TRY(const auto bad,
            load_data(communicator, *found, candidate ? &candidate->file : nullptr, *room));
    if (!bad) return found;
    if (!candidate) continue;
    search->skip(*candidate, *bad);
    archive_.forget(candidate->name);
  }
}

}  // namespace libhvd::checkpoint
