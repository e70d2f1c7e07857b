// The output files of a followed job: which they are, from when on they belong to the job, and what
// to report about them. Has no loop and no clock; the Follower decides when to look. Belongs to one
// thread. Files that cannot be read are reported by OutputTail.
#pragma once

#include "commands/seen_failure.hpp"
#include "slurm/job_record.hpp"
#include "slurm/output_path.hpp"
#include "slurm/output_tail.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

class JobOutput {
 public:
  // Takes in what SLURM reports of the job now. While the job waits for its first run, this marks
  // its files, so that what an earlier job left in them is recognized later.
  void take(const JobRecord& job);

  struct File {
    OutputTail tail;
    bool is_stderr = false;
    SeenFailure failure = {};
  };
  // Returns the files, in no order. Empty before the job has started, and for a job without a
  // script.
  std::vector<File>& files() { return files_; }

  bool all_appeared() const;
  // Returns whether a file that has not appeared may still appear: its folder exists.
  bool may_appear() const;

  // Returns a line for each file that was never seen on this host. It says where the file is.
  std::vector<std::string> missing() const;

 private:
  // Returns the state of the file before the job began; nullopt if all of the file is the job's.
  std::optional<FileMark> before(const std::string& path, const JobRecord& job) const;

  std::map<std::string, std::optional<FileMark>> marks_;  // by path, taken while the job waited
  OutputPaths paths_;
  std::vector<File> files_;
  std::string job_;   // "job 12"
  std::string host_;  // that writes the files
};

// Returns a line about what happened to a file: "out.txt was removed; …". Empty if there is nothing
// to report.
std::string news_text(OutputTail::News news, const OutputTail& tail);

}  // namespace hvdrun
