// What srun prints while it runs a step with --label: its own words, and those of the tasks.
//
//   srun: error: n3: task 2: Exited with exit code 2
//   2: slurmstepd: error: execve(): /opt/hvdrun: No such file or directory
//
// Pure functions, but for the reader, which is a plain value.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct SrunLine {
  std::optional<std::size_t> task;  // without: srun itself
  std::string text;                 // without label, "srun: " and "error: "
};

SrunLine parse_srun_line(std::string_view line);

// Tasks that have ended badly, as srun says it.
struct SrunTaskEnd {
  std::string hosts;               // in SLURM's form: "n[1-3]"
  std::vector<std::size_t> tasks;  // 0, 1, 2
  std::string how;                 // "Exited with exit code 2", "Killed"
};

// Nothing: the text says something else.
std::optional<SrunTaskEnd> parse_task_end(std::string_view text);

// Cuts lines out of what arrives. A line past 4 KiB is cut there.
class SrunReader {
 public:
  // The lines that `bytes` completes.
  std::vector<SrunLine> feed(std::string_view bytes);
  // The rest, that no newline ends.
  std::vector<SrunLine> finish();

 private:
  std::string rest_;
};

}  // namespace hvdrun
