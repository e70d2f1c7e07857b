// Some of the ranks of a job, which have collectives of their own.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
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
  // Ranks of the job, in ascending order. Made by all of these together, and by the others. Its
  // `number` is the same on all.
  static Result<std::shared_ptr<ProcessSet>> make(std::vector<int> ranks, Communicator& all,
                                                  const Environment& environment,
                                                  const WireupOptions& wireup, std::int32_t number,
                                                  EngineOptions engine);
  ~ProcessSet();

  const std::vector<int>& ranks() const { return ranks_; }
  // The place of a rank of the job among them.
  std::optional<int> rank_of(int rank) const;
  // Null: this process is not one of them.
  const std::shared_ptr<Engine>& engine() const { return engine_; }

  // In a child just forked.
  void close_in_child();

 private:
  explicit ProcessSet(std::vector<int> ranks) : ranks_(std::move(ranks)) {}

  std::vector<int> ranks_;
  int own_ = 0;                       // our place among them
  std::shared_ptr<Segment> segment_;  // null: we are not one of them
  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Bridge> bridge_;
  StreamLanes streams_;
};

// By their numbers: from 1, each higher than all before. Set 0, all ranks, is not one of these.
using ProcessSets = std::map<std::int32_t, std::shared_ptr<ProcessSet>>;

// What all ranks of the communicator say, in order of ranks. Collective.
Result<std::vector<std::string>> exchange_texts(Communicator& all, const std::string& own,
                                                const CallOptions& options);

// Nothing, or what is wrong with what the ranks want to make a set of: `wanted` by rank, as
// encode_ranks() writes it.
std::optional<Error> check_process_set(const std::vector<std::string>& wanted,
                                       const Communicator& all);
std::string encode_ranks(const std::vector<int>& ranks);

}  // namespace libhvd
