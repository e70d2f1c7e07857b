// The files that a followed job writes: which they are, from when on they are its own, and what to
// tell when they are not as expected. No loop, no clock: the follower asks when it is time.
#pragma once

#include "slurm/queue/job_record.hpp"
#include "slurm/queue/output_path.hpp"
#include "slurm/queue/output_tail.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

class JobOutput {
 public:
  // What SLURM says of the job now. While it waits for its first run its files are looked at, so
  // that those of an earlier job are known as such.
  void take(const JobRecord& job);

  struct File {
    OutputTail tail;
    bool is_stderr = false;
  };
  // In no order; empty before the job has started, and of a job without a script.
  std::vector<File>& files() { return files_; }

  bool all_appeared() const;
  // A file that has not appeared still may: its folder is there.
  bool may_appear() const;

  // A line for each file that was never seen here: where it is.
  std::vector<std::string> missing() const;

 private:
  std::optional<FileMark> before(const std::string& path, const JobRecord& job) const;

  std::map<std::string, std::optional<FileMark>> marks_;  // by path, taken while the job waited
  OutputPaths paths_;
  std::vector<File> files_;
  std::string job_;   // "job 12"
  std::string host_;  // that writes
};

// "out.txt was removed; …": a line about what has happened to a file; empty: there is none.
std::string news_text(OutputTail::News news, const OutputTail& tail);

}  // namespace hvdrun
