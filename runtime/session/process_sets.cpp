#include "session/process_sets.hpp"

#include "common/text.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <sstream>
#include <utility>

namespace libhvd {
namespace {

constexpr const char* kWhat = "hvd_add_process_set";

// The bootstrap of a set: an exchange goes to all ranks of the job through their collectives, and
// the members read the texts of the members. All ranks take part in exchanges until no member needs
// another one. A text begins with '+'; "-" is that of a rank that needs no more exchanges.
class SubsetBootstrap : public Bootstrap {
 public:
  SubsetBootstrap(Communicator& all, const std::vector<int>& members, std::optional<int> own)
      : all_(all), members_(members) {
    if (!own) return;
    info_.rank = *own;
    info_.size = static_cast<int>(members.size());
    info_.number = all.number(all.rank());
  }

  const RankInfo& info() const override { return info_; }

  Result<std::vector<std::string>> exchange(const std::string& own) override {
    HVD_TRY(auto texts, exchange_members(kHasText + own));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].front() != kHasText)
        return fail(HVD_ERROR_PEER,
                    "rank " + std::to_string(all_.number(members_[i])) + " has given up");
      texts[i].erase(0, 1);
    }
    return texts;
  }

  // Takes part in the remaining exchanges, without a text of this rank.
  Result<void> finish() {
    while (true) {
      HVD_TRY(const auto texts, exchange_members("-"));
      const bool over = std::all_of(texts.begin(), texts.end(),
                                    [](const std::string& text) { return text == "-"; });
      if (over) return {};
    }
  }

 private:
  static constexpr char kHasText = '+';

  // Returns the texts of the members.
  Result<std::vector<std::string>> exchange_members(const std::string& own) {
    HVD_TRY(auto texts, exchange_texts(all_, own, {.name = kWhat}));
    std::vector<std::string> of_members;
    for (const int member : members_) {
      of_members.push_back(std::move(texts[static_cast<std::size_t>(member)]));
      if (of_members.back().empty()) return fail(HVD_ERROR_SYSTEM, "a rank sent a malformed text");
    }
    return of_members;
  }

  Communicator& all_;
  const std::vector<int>& members_;
  RankInfo info_;
};

}  // namespace

Result<std::vector<std::string>> exchange_texts(Communicator& all, const std::string& own,
                                                const CallOptions& options) {
  const auto ranks = static_cast<std::size_t>(all.size());
  const std::uint64_t length = own.size();
  std::vector<std::uint64_t> lengths(ranks);
  HVD_CHECK(all.allgather(&length, sizeof length, 1, HVD_UINT8, lengths.data(),
                          ranks * sizeof length, nullptr, options));
  std::string joined(std::accumulate(lengths.begin(), lengths.end(), std::size_t{0}), '\0');
  HVD_CHECK(all.allgather(own.data(), own.size(), 1, HVD_UINT8, joined.data(), joined.size(),
                          nullptr, options));
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (const std::uint64_t bytes : lengths) {
    texts.push_back(joined.substr(at, bytes));
    at += bytes;
  }
  return texts;
}

std::string encode_ranks(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ",") + std::to_string(rank);
  return text;
}

std::optional<Error> check_process_set(const std::vector<std::string>& wanted,
                                       const Communicator& all) {
  for (std::size_t rank = 1; rank < wanted.size(); ++rank) {
    if (wanted[rank] == wanted[0]) continue;
    return fail(HVD_ERROR_MISMATCH, std::string(kWhat) + ": the ranks do not agree: the set is " +
                                        wanted[0] + " on rank " + std::to_string(all.number(0)) +
                                        " and " + wanted[rank] + " on rank " +
                                        std::to_string(all.number(static_cast<int>(rank))));
  }
  const auto wrong = [&](const std::string& why) {
    return fail(HVD_ERROR_INVALID_ARGUMENT, std::string(kWhat) + ": " + why);
  };
  if (wanted[0].empty()) return wrong("a set needs at least one rank");
  std::istringstream numbers(wanted[0]);
  std::vector<int> seen;
  for (std::string number; std::getline(numbers, number, ',');) {
    const int rank = std::stoi(number);
    if (rank < 0 || rank >= all.size())
      return wrong("rank " + number + " is not one of the job's " + std::to_string(all.size()));
    if (std::find(seen.begin(), seen.end(), rank) != seen.end())
      return wrong("rank " + number + " stands twice in it");
    seen.push_back(rank);
  }
  return std::nullopt;
}

Result<std::shared_ptr<ProcessSet>> ProcessSet::make(std::vector<int> ranks, Communicator& all,
                                                     const Environment& environment,
                                                     const WireupOptions& options,
                                                     std::int32_t number, EngineOptions engine) {
  std::sort(ranks.begin(), ranks.end());
  std::shared_ptr<ProcessSet> set(new ProcessSet(std::move(ranks)));
  const auto own = set->rank_of(all.rank());
  SubsetBootstrap bootstrap(all, set->ranks_, own);
  if (!own) {
    HVD_CHECK(bootstrap.finish());
    return set;
  }
  WireupOptions of_set = options;
  of_set.lanes = 1;
  of_set.job = all.segment();
  of_set.job_ranks = set->ranks_;
  auto wireup = wire_up(bootstrap, environment, of_set);
  HVD_CHECK(bootstrap.finish());
  if (!wireup.ok()) return with_context(kWhat, wireup.error());
  set->own_ = *own;
  set->segment_ = wireup->segment;
  auto communicator =
      std::make_unique<Communicator>(wireup->segment, *own, wireup->streams, all, number);
  set->streams_ = std::move(wireup->streams);
  set->bridge_ = std::move(wireup->bridge);
  HVD_TRY(set->engine_, Engine::start(std::move(communicator), std::move(engine)));
  return set;
}

ProcessSet::~ProcessSet() {
  if (engine_) engine_->stop();
  if (segment_) segment_->set_left(own_);
}

std::optional<int> ProcessSet::rank_of(int rank) const {
  const auto found = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  if (found == ranks_.end() || *found != rank) return std::nullopt;
  return static_cast<int>(found - ranks_.begin());
}

void ProcessSet::fail(FailureKind kind) {
  if (segment_) segment_->set_failure(kind, own_);
}

void ProcessSet::close_in_child() {
  if (bridge_) bridge_->close_in_child();
  for (const auto& streams : streams_) {
    if (streams) streams->close_in_child();
  }
}

}  // namespace libhvd
