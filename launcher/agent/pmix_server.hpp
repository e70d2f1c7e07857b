// The PMIx server of one agent: what lets a rank say PMIx_Init, MPI_Init or hvd_init.
//
// Owned by the agent, on its loop's thread; libpmix runs its callbacks on a thread of its own, and
// these only post into the loop. There is one per process, since libpmix keeps global state, and it
// is never finalized: the agent ends by removing its folders and leaving.
//
// Source: PMIx Standard 4.1, chapter 16 (server APIs), and its reserved keys.
#pragma once

#include "agent/pmix_fences.hpp"
#include "agent/pmix_job.hpp"
#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "protocol/frame.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hvdrun {

class PmixServer {
 public:
  struct Events {
    // The rank called PMIx_Abort; `code` is what the job should end with.
    std::function<void(int rank, int code, std::string text)> on_abort;
    // For the launcher, or through it for the agent of the host `destination`.
    PmixSend send;
    // The job cannot go on.
    std::function<void(const Error&)> on_error;
  };

  // Opens libpmix and its listener on 127.0.0.1, with files below `folder` only. About 5 ms.
  // Error: no libpmix, or it cannot start; with what to do.
  static Result<std::unique_ptr<PmixServer>> start(const EventLoop& loop,
                                                   const std::filesystem::path& folder,
                                                   std::size_t local_ranks, Events events);
  ~PmixServer();

  // Tells PMIx of the job and of this host's ranks. Error: PMIx refuses, or does not answer in 10
  // s.
  Result<void> register_job(const PmixJob& job);

  // What the rank must have in its environment to find this server: "NAME=VALUE" each.
  Result<std::vector<std::string>> environment_of(int rank) const;

  // What other hosts' servers say: fence_result, modex_request and modex_answer. Error: a frame
  // that does not fit.
  Result<void> on_frame(const Frame& frame);

  // The rank is gone: nobody is to wait any longer for what it has not put.
  void rank_ended(int rank);

  // Runs callbacks that are waiting, so that how a rank left is known before it is judged.
  void drain();

  // Calls `done` when libpmix's thread has read what ranks that have ended by now had sent, however
  // long it stands still before.
  void settle(std::function<void()> done);

  // Whether any rank has opened PMIx.
  bool had_clients() const;

  // The rank opened PMIx and did not finalize. Meaningful once it has ended and drain() ran.
  bool left_without_finalize(int rank) const;

 private:
  class Impl;
  explicit PmixServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdrun
