// Looking for a checkpoint and loading it: the part of Checkpoints that reads.
#include "checkpoint/agreement.hpp"
#include "checkpoint/checkpoints.hpp"
#include "checkpoint/load_data.hpp"

#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace libhvd::checkpoint {
namespace {

std::vector<Description> descriptions_of(const Index& index) {
  std::vector<Description> parts;
  for (const Part& part : index.parts) parts.push_back(part.description);
  return parts;
}

// A pointer for each part of the index; bytes get room first.
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

Outcome Checkpoints::begin_search(hvd_which which, std::optional<Search>& search) const {
  if (which != HVD_NEWEST && which != HVD_THE_BEST)
    return fail(HVD_ERROR_INVALID_ARGUMENT,
                "there is no hvd_which " + std::to_string(which) + " to look for");
  const hvd_best best = options_.retention.best;
  if (which == HVD_THE_BEST && best == HVD_BEST_NONE)
    return fail(
        HVD_ERROR_INVALID_ARGUMENT,
        "the best checkpoint of " + folder_ +
            " was asked for, but the folder was opened without saying which metric is best");
  if (rank_ != 0) return Done{};
  HVD_TRY(search, Search::begin(folder_, which == HVD_THE_BEST ? best : HVD_BEST_NONE));
  return Done{};
}

// The next candidate of rank 0's search, on all ranks.
Result<std::optional<Found>> Checkpoints::share_next(
    Communicator& communicator, std::optional<Search>& search,
    std::optional<Search::Candidate>& candidate) const {
  candidate.reset();
  Outcome own = Done{};
  if (search) {
    auto next = search->next();
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
  HVD_CHECK(settle(communicator));
  std::optional<Search> search;
  std::optional<Search::Candidate> candidate;
  HVD_CHECK(agree_on(communicator, static_cast<std::uint64_t>(which), kOtherWhich));
  HVD_CHECK(agree(communicator, begin_search(which, search)));
  return share_next(communicator, search, candidate);
}

Result<std::optional<Found>> Checkpoints::load(Communicator& communicator,
                                               std::span<const Item> items, hvd_which which) {
  HVD_CHECK(settle(communicator));
  Outcome own = Done{};
  if (std::string fault = find_fault(items); !fault.empty())
    own = fail(HVD_ERROR_INVALID_ARGUMENT, std::move(fault));
  HVD_CHECK(agree(communicator, own));
  const std::vector<Description> state = describe(items);
  HVD_CHECK(agree_on_state(communicator, state, false));
  std::optional<Search> search;
  std::optional<Search::Candidate> candidate;
  HVD_CHECK(agree_on(communicator, static_cast<std::uint64_t>(which), kOtherWhich));
  HVD_CHECK(agree(communicator, begin_search(which, search)));
  while (true) {
    HVD_TRY(auto found, share_next(communicator, search, candidate));
    if (!found) return found;
    const std::vector<Description> parts = descriptions_of(found->index);
    if (const auto differences = find_differences(state, parts); !differences.empty())
      return unfit(found->path, differences);
    auto room = make_room(found->index, items);
    own = room.ok() ? Outcome(Done{}) : Outcome(room.error());
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
