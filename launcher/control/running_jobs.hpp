// The jobs of this user that run on this machine, each found by the socket of its hvdrun, and which
// of them a user means.
//
// For one thread, which the calls block: at most a second, if an hvdrun does not answer, and 3 more
// for one that has just begun.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "control/control_client.hpp"
#include "model/job_now.hpp"

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct RunningJob {
  ControlSocket socket;
  pid_t pid = 0;        // as this process sees it
  JobAbout about = {};  // if it has answered
  std::string trouble;  // why it has not: "hvdrun 12 is stopped and …"; "": it has
};

// Returns the jobs, the oldest first. Removes sockets that killed hvdruns have left.
std::vector<RunningJob> running_jobs(const Environment& environment);

// Returns running_jobs(). If `name` is the pid of an hvdrun that is not among them, waits up to 3 s
// until it is: the process may have just begun.
std::vector<RunningJob> running_jobs_with(const std::optional<std::string>& name,
                                          const Environment& environment);

// Returns the job that the user means: by hvdrun's pid, or the number of its SLURM job; without a
// name the only one. Error (kExitUsage): there is none, or several, which the message lists.
// `command`: "hvdrun top", for the message.
Result<RunningJob> choose_job(const std::vector<RunningJob>& jobs,
                              const std::optional<std::string>& name, const std::string& command);

// Returns choose_job(), connected.
Result<ControlClient> connect_to_job(const std::vector<RunningJob>& jobs,
                                     const std::optional<std::string>& name,
                                     const std::string& command);

// Returns a job in a line: "4321  2 ranks on 1 host  python train.py".
std::string job_line(const RunningJob& job);

// Returns "2 ranks and 1 spare on 1 host, 1 lost".
std::string size_text(const JobAbout& about);

// Returns the words as a shell takes them.
std::string command_text(const std::vector<std::string>& words);

}  // namespace hvdrun
