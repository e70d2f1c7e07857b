// The runs of a study, each an hvdrun of its own: our child, in our process group, so that the
// terminal's signals reach it as they reach us.
//
// Blocks the signals that stop a study while it lives; one thread.
#pragma once

#include "base/result.hpp"

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct RunFiles {
  std::filesystem::path report;
  std::filesystem::path output;  // what hvdrun and the program print
  std::filesystem::path words;   // with --submit: what sbatch and follow say
};

class ScaleRuns {
 public:
  // `options` are hvdrun's, `command` is the program. `shows_output`: on stderr, while it runs.
  ScaleRuns(std::vector<std::string> options, std::vector<std::string> command, bool shows_output);
  ~ScaleRuns();
  ScaleRuns(const ScaleRuns&) = delete;
  ScaleRuns& operator=(const ScaleRuns&) = delete;

  // Whether hvdrun would start so many ranks: its exit code, and why not in the file. Nothing is
  // started.
  Result<int> check(int size, const std::filesystem::path& output);

  // Its exit code, or 128 + the signal that ended it. A signal that asks us to stop ends the run
  // first. Error: it could not be started.
  Result<int> run(int size, const RunFiles& files);

  // The run as a SLURM job: its number. Error: sbatch's refusal.
  Result<std::string> submit(int size, const RunFiles& files);
  // Until the job has ended: its exit code (hvdrun follow).
  Result<int> follow(const std::string& job, const RunFiles& files);
  // Those of them that have not ended.
  void cancel(const std::vector<std::string>& jobs, const std::filesystem::path& output);

  // The signal by which we were asked to stop, if any.
  std::optional<int> stop_signal();

 private:
  std::vector<std::string> words_for(std::vector<std::string> begin, int size,
                                     const std::vector<std::string>& more) const;
  Result<int> run_child(std::vector<std::string> words, const std::filesystem::path& output,
                        bool shows_output);
  Result<pid_t> start(std::vector<std::string>& words, int output) const;
  void take_signal(const siginfo_t& signal, pid_t child);

  std::vector<std::string> options_;
  std::vector<std::string> command_;
  bool shows_output_;
  std::string executable_;
  sigset_t watched_{};
  sigset_t mask_before_{};
  std::optional<int> stop_signal_;
};

}  // namespace hvdrun
