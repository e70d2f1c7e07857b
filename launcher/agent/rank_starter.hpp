// Starts ranks on this host: at the launch, and later ones of a job that gets new ranks. Each gets
// its environment, its status page, its pipes, and its place among the agent's members.
//
// A function of the agent's parts, on its loop thread.
#pragma once

#include "agent/job_folders.hpp"
#include "agent/member_server.hpp"
#include "agent/pmix_server.hpp"
#include "agent/rank_inputs.hpp"
#include "agent/rank_processes.hpp"
#include "agent/status_pages.hpp"
#include "agent/stdio_forwarder.hpp"
#include "base/result.hpp"
#include "protocol/link.hpp"
#include "protocol/messages.hpp"

#include <cstddef>

namespace hvdrun {

// What ranks are started with.
struct RankStarter {
  LaunchMessage& job;
  const JobFolders& folders;
  Link& link;
  StatusPages& pages;
  RankProcesses& ranks;
  RankInputs& inputs;
  OutputForwarder& output;
  MemberServer* members;  // null: the job ends when a rank is lost
  PmixServer* pmix;       // null: none

  // Starts the ranks of the job from this index on, and reports those that have started. Error: one
  // could not be started; others may run.
  Result<void> start(std::size_t first);

  // Adds ranks to the job, and starts them. One that cannot be started is reported as a rank that
  // has ended with code 126.
  void start_more(StartMoreMessage more);
};

}  // namespace hvdrun
