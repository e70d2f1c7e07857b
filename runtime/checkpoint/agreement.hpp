// What the ranks agree on before and after each does its part: collectives made of a communicator's
// own. A rank that finds something wrong must still come here, or the others wait for it.
#pragma once

#include "base/result.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/item.hpp"
#include "collective/communicator.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace libhvd::checkpoint {

// The outcome of the lowest rank that failed, on all ranks; "rank R: " before the text of a rank
// that is not this one. Done when none has failed.
Result<void> agree(Communicator& communicator, const Result<void>& own);

// The same, but apart from what the communicator says, which alone is an error here.
Result<std::optional<Error>> first_failure(Communicator& communicator, const Result<void>& own);

// Success when all ranks have the same number, else HVD_ERROR_MISMATCH with this text.
Result<void> agree_on(Communicator& communicator, std::uint64_t number, const char* mismatch);

// Success when all ranks have the same parts in the same order, else HVD_ERROR_MISMATCH with what
// differs. `exact`: see find_differences.
Result<void> agree_on_state(Communicator& communicator, std::span<const Description> parts,
                            bool exact);

// Whether all ranks have the same number.
Result<bool> same_everywhere(Communicator& communicator, std::int64_t number);

// Whether it holds on all ranks.
Result<bool> true_everywhere(Communicator& communicator, bool own);

// Rank 0's number and bytes, on all ranks.
Result<std::uint64_t> share_number(Communicator& communicator, std::uint64_t number);
Result<void> share_bytes(Communicator& communicator, std::string& bytes);

// The options of the collectives here: a name for messages.
const CallOptions& call_options();

// Waits until the ranks' parts of a checkpoint stand in the folder. There is no communication
// between the ranks while training goes on; what shows that a part is whole is its file.
//
// wait() runs on one thread; timeout() may be called from others.

class PartWatch {
 public:
  // Forgets an earlier timeout().
  void reset();

  // The manifest, once all parts are there: `manifest` with the checksums that they bring. Waits
  // for ever, or as long as timeout() allows. Error: a part is not what it should be; timeout
  // ended.
  Result<Index> wait(const std::string& folder, Index manifest);

  // From now on wait() lasts at most this long: the other ranks have written their parts, or it
  // cannot be known whether they will.
  void timeout(std::chrono::milliseconds at_most);

 private:
  using Clock = std::chrono::steady_clock;

  // Since `begin` there have been listings. False: timeout has ended.
  bool pause(Clock::time_point begin);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Clock::time_point> end_;
};

}  // namespace libhvd::checkpoint
