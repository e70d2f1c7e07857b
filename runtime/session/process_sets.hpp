// Process sets: some of the ranks of a job, with a segment, connections and an engine of their own.
// The session owns them. Under Process::calls, unless noted.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"
#include "bootstrap/wireup.hpp"
#include "collective/communicator.hpp"
#include "engine/engine.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace libhvd {

class ProcessSet {
 public:
  // Makes a set of `ranks`, in any order. A collective of all ranks of the job, including those
  // that are not in the set. `number` is the same on all ranks. Error: the ranks of the set cannot
  // connect; other ranks may succeed.
  static Result<std::shared_ptr<ProcessSet>> make(std::vector<int> ranks, Communicator& all,
                                                  const Environment& environment,
                                                  const WireupOptions& wireup, std::int32_t number,
                                                  EngineOptions engine);
  ~ProcessSet();

  const std::vector<int>& ranks() const { return ranks_; }  // in ascending order
  // Returns the number in the set of a rank of the job; nullopt if it is not in the set.
  std::optional<int> rank_of(int rank) const;
  // Returns null if this process is not in the set.
  const std::shared_ptr<Engine>& engine() const { return engine_; }

  // Ends the collectives of the set, because the job's have ended. Any thread.
  void fail(FailureKind kind);

  // Closes the connections in a child that was just forked.
  void close_in_child();

 private:
  explicit ProcessSet(std::vector<int> ranks) : ranks_(std::move(ranks)) {}

  std::vector<int> ranks_;
  int own_ = 0;                       // this rank's number in the set
  std::shared_ptr<Segment> segment_;  // null: this rank is not in the set
  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Bridge> bridge_;
  StreamLanes streams_;
};

// Process sets by their numbers, which are given from 1 upwards and never again. Set 0, all ranks,
// is not among them.
using ProcessSets = std::map<std::int32_t, std::shared_ptr<ProcessSet>>;

// Returns the texts of all ranks of the communicator, in the order of ranks. Collective. Error: a
// collective failed.
Result<std::vector<std::string>> exchange_texts(Communicator& all, const std::string& own,
                                                const CallOptions& options);

// Checks the sets that the ranks want to make: `wanted` has each rank's, as encode_ranks() writes
// it. Returns nullopt if they are equal and valid.
std::optional<Error> check_process_set(const std::vector<std::string>& wanted,
                                       const Communicator& all);
// Returns "0,2,5".
std::string encode_ranks(const std::vector<int>& ranks);

}  // namespace libhvd
