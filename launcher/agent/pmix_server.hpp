// The PMIx server of one agent, which serves PMIx_Init, MPI_Init and hvd_init of its ranks.
//
// The agent owns it, on its loop thread. libpmix runs its callbacks on a thread of its own, and
// these only post into the loop; when a rank opens PMIx twice, the thread waits for it. A process
// has one server, because libpmix keeps global state. It is never finalized: the agent ends by
// removing its folders and exiting.
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
    // The rank called PMIx_Abort; the job should end with `code`.
    std::function<void(int rank, int code, std::string text)> on_abort;
    // Sends to the launcher, or through it to the agent of the host `destination`.
    PmixSend send;
    // The job cannot continue.
    std::function<void(const Error&)> on_error;
    // Returns the rank's first process; 0 if it has ended.
    std::function<pid_t(int rank)> pid_of = [](int) { return 0; };
    std::function<void(const std::string& text)> on_warning = [](const std::string&) {};
  };

  // Opens libpmix and its listener on 127.0.0.1. Its files are all below `folder`. `host`: this
  // host's name in the job. Takes about 5 ms. Error: libpmix is missing or too old (the message
  // says what to install), or cannot start.
  static Result<std::unique_ptr<PmixServer>> start(const EventLoop& loop,
                                                   const std::filesystem::path& folder,
                                                   const std::string& host, std::size_t local_ranks,
                                                   Events events);
  ~PmixServer();

  // Registers the job and this host's ranks with PMIx. Error: PMIx refuses, or does not answer
  // within 10 s.
  Result<void> register_job(const PmixJob& job);

  // Adds variables that the user may have set: add_defaults_of_pmix().
  void add_defaults(std::vector<std::string>& environment) const;

  // Returns the variables by which the rank finds this server: "NAME=VALUE" each. Error: PMIx
  // refuses.
  Result<std::vector<std::string>> environment_of(int rank) const;

  // Handles a frame of other hosts' servers, or the launcher's: fence_result, modex_request,
  // modex_answer or names_answer. Error: it is malformed, or of another type.
  Result<void> on_frame(const Frame& frame);

  // Call it when the rank has ended. Requests for data that it has not put fail.
  void rank_ended(int rank);

  // Runs callbacks that are waiting. Call it before left_without_finalize().
  void drain();

  // Calls `done` when libpmix's thread has read everything that already exited ranks sent. No
  // timeout.
  void settle(std::function<void()> done);

  // Returns whether any rank has opened PMIx.
  bool had_clients() const;

  // Returns whether the rank opened PMIx and did not finalize. Valid once the rank has ended and
  // drain() ran.
  bool left_without_finalize(int rank) const;

 private:
  class Impl;
  explicit PmixServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdrun
