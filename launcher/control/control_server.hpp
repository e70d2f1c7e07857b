// The socket of a running hvdrun, for commands that look into its job from another terminal
// (`hvdrun top`). It passes on requests and sends back the answers.
//
// The job owns it, on its loop thread. It never blocks, and whatever a client does costs the job
// little: only this user's processes may connect; a client has one request at a time; it is
// disconnected if it sends no request or does not read its answer. If the socket's file vanishes
// (the user has logged out, and /run/user/UID with it), the socket is made again.
//
// start() fails if there can be no socket. The destructor removes the file.
#pragma once

#include "base/environment.hpp"
#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "common/fd.hpp"
#include "control/control_message.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// Sends the answer to a request: JSON in one line (json_line()), or an error. Call it once, at any
// time on the loop thread. It does nothing if the client or the server has gone.
using ControlAnswer = std::function<void(const Result<std::string>& answer)>;

class ControlServer {
 public:
  using Handle = std::function<void(const ControlRequest& request, ControlAnswer answer)>;

  static Result<std::unique_ptr<ControlServer>> start(const EventLoop& loop,
                                                      const Environment& environment,
                                                      const std::string& job_id, Handle handle);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  struct Client;
  using Clients = std::map<std::uint64_t, Client>;  // by number

  ControlServer(const EventLoop& loop, const Environment& environment, const std::string& job_id,
                Handle handle);
  Result<void> listen();
  Result<void> listen_in(const std::filesystem::path& folder);
  bool is_there() const;
  void look_at_folder();
  void accept();
  void read(std::uint64_t number);
  void take(std::uint64_t number, const std::string& line);
  void reply(std::uint64_t number, const Result<std::string>& answer);
  void write(std::uint64_t number);
  void look_after();

  const EventLoop& loop_;
  const Environment environment_;
  const std::string name_;
  const Handle handle_;
  std::filesystem::path path_;
  ino_t inode_ = 0;  // of the socket's file
  Fd listener_;
  FdEvent acceptable_;
  Timer accept_again_;  // after a shortage of descriptors or memory
  Timer clients_timer_;
  Timer file_timer_;
  bool has_cleaned_up_ = false;
  Clients clients_;
  std::uint64_t next_number_ = 0;
  std::shared_ptr<char> lives_ = std::make_shared<char>();  // for answers that come later
};

}  // namespace hvdrun
