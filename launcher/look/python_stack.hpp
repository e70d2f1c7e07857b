// Python's threads and their frames, read from another process's memory. Nothing runs in that
// process, and no lock of it is taken. Whatever is read may be garbage: every walk has a bound.
// PythonProcess::find() reads what does not change, and threads() what does; call the latter while
// the process is stopped. Any thread.
#pragma once

#include "common/result.hpp"
#include "look/memory.hpp"
#include "look/proc_files.hpp"
#include "look/python_code.hpp"
#include "look/python_layout.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct PythonThread {
  Address id = 0;       // pthread_self()
  pid_t native_id = 0;  // in the process's own PID namespace; 0: not known
  bool holds_gil = false;
  bool complete = true;             // false: some frames were left out, or could not be read
  std::vector<PythonFrame> frames;  // the innermost first
};

class PythonProcess {
 public:
  // Looks for an interpreter in the process. Returns nullopt if there is none. Error: there is one,
  // but it cannot be read; the text says why.
  static Result<std::optional<PythonProcess>, std::string> find(
      pid_t pid, const Memory& memory, const std::vector<Mapping>& mappings);

  // Reads the threads and at most `depth` frames of each. Ends early at `deadline`.
  std::vector<PythonThread> threads(std::size_t depth,
                                    std::chrono::steady_clock::time_point deadline) const;

  const PythonLayout& layout() const { return layout_; }
  // "3.11", or "3.11.2" if the interpreter says so.
  const std::string& version() const { return version_; }
  // The file that the interpreter's code is in.
  const std::string& file() const { return file_; }

 private:
  explicit PythonProcess(const Memory& memory) : memory_(&memory) {}
  bool check();
  bool is_sound(std::uint32_t interpreters, std::uint32_t threads) const;
  PythonThread read_thread(Address state, std::size_t depth) const;
  Address gil_holder(Address interpreter) const;

  const Memory* memory_;
  PythonLayout layout_;
  Address runtime_ = 0;
  std::string version_;
  std::string file_;
};

}  // namespace hvdrun
