// Starts the runs of a study. Each is an hvdrun of its own: a child in our process group, so that
// the terminal's signals reach it as well. Calls block until the child ends. One thread.
//
// A ScaleRuns blocks the signals that stop a study (SIGINT, SIGTERM, SIGHUP) and SIGCHLD while it
// exists.
#pragma once

#include "base/result.hpp"
#include "commands/scale_study.hpp"

#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct RunFiles {
  std::filesystem::path report;
  std::filesystem::path output;     // what hvdrun and the program print
  std::filesystem::path slurm_log;  // with --submit: what hvdrun sbatch and hvdrun follow print
};

class ScaleRuns {
 public:
  // `options` are hvdrun's, `command` is the program. {np} in them is replaced by the size of the
  // run. `shows_output`: shows the output of a run on stderr while it runs.
  ScaleRuns(scale::Unit unit, std::vector<std::string> options, std::vector<std::string> command,
            bool shows_output);
  ~ScaleRuns();
  ScaleRuns(const ScaleRuns&) = delete;
  ScaleRuns& operator=(const ScaleRuns&) = delete;

  // Checks that hvdrun would start a run of that size; starts none. Returns hvdrun's exit code. If
  // it is not 0, `output` says why. Must be called before run() for each number of devices, because
  // it finds the GPUs. Error: there are no such GPUs.
  Result<int> check(int size, const std::filesystem::path& output);

  // Runs the program. Returns the exit code, or 128 + the signal that ended the run. A signal that
  // stops the study ends the run first. Error: it could not be started.
  Result<int> run(int size, const RunFiles& files);

  // Submits the run as a SLURM job. Returns the job's number. Error: sbatch's refusal.
  Result<std::string> submit(int size, const RunFiles& files);
  // Waits for the job's end (hvdrun follow). Returns its exit code.
  Result<int> follow(const std::string& job, const RunFiles& files);
  // Cancels those of the jobs that have not ended (hvdrun cancel). Ignores errors.
  void cancel(const std::vector<std::string>& jobs, const std::filesystem::path& output);

  // Returns the signal that stopped the study; nullopt if there was none.
  std::optional<int> stop_signal();

 private:
  std::vector<std::string> words_for(std::vector<std::string> begin, int size,
                                     const std::vector<std::string>& more) const;
  std::vector<std::string> size_words(int size, bool submits) const;
  Result<int> run_child(std::vector<std::string> words, const std::filesystem::path& output,
                        bool shows_output);
  Result<pid_t> start(std::vector<std::string>& words, int output) const;
  void take_signal(const siginfo_t& signal, pid_t child);

  scale::Unit unit_;
  std::map<int, std::string> visible_;  // CUDA_VISIBLE_DEVICES by number of devices
  std::vector<std::string> options_;
  std::vector<std::string> command_;
  bool shows_output_;
  std::string executable_;
  sigset_t watched_{};
  sigset_t mask_before_{};
  std::optional<int> stop_signal_;
};

}  // namespace hvdrun
