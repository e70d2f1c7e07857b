// Reads what srun prints while it runs a step with --label: its own lines, and those of the tasks.
//
//   srun: error: n3: task 2: Exited with exit code 2
//   2: slurmstepd: error: execve(): /opt/hvdrun: No such file or directory
//
// Pure functions, and a reader that is a plain value. They accept any bytes and cannot fail.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct SrunLine {
  std::optional<std::size_t> task;  // nullopt: the line is srun's own
  std::string text;                 // without label, "srun: " and "error: "
};

SrunLine parse_srun_line(std::string_view line);

// Tasks that srun has reported as failed.
struct SrunTaskEnd {
  std::string hosts;               // in SLURM's form: "n[1-3]"
  std::vector<std::size_t> tasks;  // 0, 1, 2
  std::string how;                 // "Exited with exit code 2", "Killed"
};

// Reads the text of one of srun's own lines. Returns nullopt if it reports no task's end.
std::optional<SrunTaskEnd> parse_task_end(std::string_view text);

// Cuts the output into lines as it arrives. Of a longer line it keeps the first 4 KiB.
class SrunReader {
 public:
  // Returns the lines that `bytes` completes.
  std::vector<SrunLine> feed(std::string_view bytes);
  // Returns the last line, if no newline ends it.
  std::vector<SrunLine> finish();

 private:
  std::string rest_;
};

}  // namespace hvdrun
