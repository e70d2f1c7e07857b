// A command's connection to a running hvdrun. It asks, and waits for the answer.
//
// A value of one thread, which it blocks.
#pragma once

#include "base/patience.hpp"
#include "base/result.hpp"
#include "common/fd.hpp"
#include "control/control_message.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <sys/types.h>

namespace hvdrun {

// The socket's file of a running hvdrun, or of one that was killed.
struct ControlSocket {
  std::filesystem::path folder;
  std::string name;
};

class ControlClient {
 public:
  // An error without a message: no hvdrun listens there any more; the file was removed. Other
  // errors: the folder is not safe, the process is another user's, or it has no room.
  static Result<ControlClient> connect(const ControlSocket& socket);

  // Returns hvdrun's pid. 0: it is in a PID namespace that this process does not see.
  pid_t pid() const { return pid_; }

  // Asks, and returns the answer. Errors: hvdrun answers with one; it does not answer in time; it
  // has ended (has_ended()). One that stays stopped for three seconds is not waited for longer.
  Result<ControlJson> ask(std::string_view word, const ControlJson& arguments,
                          std::chrono::milliseconds timeout);

  // The two halves of ask(), for a caller who asks several.
  Result<void> send(std::string_view word, const ControlJson& arguments);
  Result<ControlJson> receive(Patience& patience);

  // Returns the answer if it has come, without waiting. Errors as those of ask().
  std::optional<Result<ControlJson>> poll();
  int descriptor() const { return socket_.get(); }

  // Returns what the user learns while an answer is missing.
  Error silence() const;

  // Returns whether the connection has closed: the job has ended.
  bool has_ended() const { return ended_; }

 private:
  ControlClient(Fd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}
  Error end();

  Fd socket_;
  pid_t pid_ = 0;
  std::string received_;
  bool ended_ = false;
};

}  // namespace hvdrun
