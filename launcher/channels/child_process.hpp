// A program that we start with pipes as its standard streams: ssh, srun.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"
#include "protocol/link.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct ChildProcess {
  pid_t pid = 0;  // our child, in a session of its own: the terminal's signals are for us
  LinkEnd link;   // its stdin and stdout; non-blocking
  Fd errors;      // its stderr; non-blocking
};

struct ChildOptions {
  std::optional<std::vector<std::string>> environment;  // "NAME=VALUE"; without: ours
  bool errors_only = false;  // its stdout goes where its stderr goes; link.in stays closed
  int stream = -1;           // its stdin and stdout, in place of `link`, which stays closed
};

// The program is looked for in our PATH. Error: there is no such program.
Result<ChildProcess> start_child(const std::vector<std::string>& command,
                                 const ChildOptions& options = {});

// What a program prints on stdout, with nothing on its stdin; empty when it has not ended after
// `timeout`, or printed more than a megabyte. What it prints on stderr is lost. From any thread.
Result<std::string> output_of(const std::vector<std::string>& command,
                              std::chrono::milliseconds timeout);

// Runs programs side by side, with nothing on their stdin, and waits until all have ended,
// blocking. Those that have not after `timeout` are killed. What they print is lost. Returns which
// have ended with exit code 0.
std::vector<bool> run_children(const std::vector<std::vector<std::string>>& commands,
                               std::chrono::milliseconds timeout);

// What somebody prints on stderr, cut into lines as it comes, and kept for an explanation.

class TextLines {
 public:
  // Called with each line that is not empty, without its end.
  explicit TextLines(std::function<void(std::string)> on_line) : on_line_(std::move(on_line)) {}

  void add(std::string_view text);
  void end();  // a last line without newline is one, too

  const std::string& beginning() const { return beginning_; }  // 16 KB at most

 private:
  static constexpr std::size_t kMost = 16u << 10;

  std::function<void(std::string)> on_line_;
  std::string beginning_;
  std::string line_;  // that is not complete yet
};

}  // namespace hvdrun
