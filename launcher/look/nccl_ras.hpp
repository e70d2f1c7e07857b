// Asks NCCL's RAS, which the processes of a job run in a thread, what each rank has called. One of
// them answers for the whole job.
//
// A process of its own asks, which may be killed at any time: RAS may not answer, and a name may
// have to be resolved. It only believes a server that is one of the job's processes. The caller
// must have no other thread, because this forks. Nothing fails: without an answer there is none.
//
// Source: NCCL, User Guide, "RAS", NCCL_RAS_ADDR; NCCL's src/ras/client_support.cc.
#pragma once

#include "common/fd.hpp"
#include "look/nccl_state.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

class NcclQuestion {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts the process that asks. It asks twice, `interval` apart, and gives up after `limit`.
  // `pids`: the ranks of this host.
  NcclQuestion(const std::vector<pid_t>& pids, std::chrono::milliseconds interval,
               std::chrono::milliseconds limit);
  ~NcclQuestion();
  NcclQuestion(const NcclQuestion&) = delete;
  NcclQuestion& operator=(const NcclQuestion&) = delete;

  // Returns what it has found: a line as nccl_json() writes it. Waits for that, not beyond `limit`.
  // "": there is no answer.
  std::string wait();

 private:
  const Clock::time_point deadline_;
  pid_t child_ = 0;
  common::Fd out_;
};

// Asks once at an address, "localhost:28028", and returns what is uneven; nullopt: there is no
// answer. `programs`: the processes that may answer.
std::optional<std::vector<NcclCommunicator>> ask_nccl(const std::string& address,
                                                      const std::vector<pid_t>& programs,
                                                      NcclQuestion::Clock::time_point deadline);

// Returns where a process's RAS answers: the value of NCCL_RAS_ADDR in its environment, or
// "localhost:28028". "": it has none.
std::string nccl_address(const std::string& environment);

}  // namespace hvdrun
