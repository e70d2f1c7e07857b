// The agent's socket for the members of a job that continues when ranks are lost (--min-np), and
// their connections.
//
// It relays, and decides nothing. What a member sends goes to the launcher with the member's
// number. What the launcher sends goes to the members that it names, as far as they are connected.
// A connection that breaks the rules is closed. If a member loses its connection without having
// left, and its process does not end either, the launcher hears that it is disconnected.
//
// The agent owns it, on its loop thread. Only start() can fail.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "common/agent_messages.hpp"
#include "common/fd.hpp"
#include "protocol/frame.hpp"
#include "protocol/link.hpp"
#include "protocol/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hvdrun {

class MemberServer {
 public:
  // Serves the members that `job` starts here, from a socket in `folder`, which only this user may
  // enter. `warn` gets a line for the user. Error: there can be no socket.
  static Result<std::unique_ptr<MemberServer>> start(
      const EventLoop& loop, FrameSender& link, const std::filesystem::path& folder,
      const LaunchMessage& job, std::function<void(const std::string& text)> warn);
  ~MemberServer();
  MemberServer(const MemberServer&) = delete;
  MemberServer& operator=(const MemberServer&) = delete;

  // Makes the socket again, if its file is not there any more. Connections stay. Returns whether
  // that was needed. Error: there can be no socket.
  Result<bool> restore();

  // Serves one more member.
  void add(int rank) { members_.insert(static_cast<std::uint32_t>(rank)); }

  // Returns the variables by which a rank finds the socket: "NAME=VALUE".
  std::vector<std::string> environment_of(int rank) const;

  // Takes a frame of the launcher for members. Error: it is malformed.
  Result<void> on_frame(const Frame& frame);

  // Returns whether a member has come because its generation has failed, and the launcher has not
  // answered it.
  bool one_waits() const;

  // Sends on what the member has said before its process ended, and forgets its connection.
  void ended(std::uint32_t member);

 private:
  struct Connection;
  using Connections = std::list<Connection>;
  using ByMember = std::map<std::uint32_t, Connections::iterator>;

  MemberServer(const EventLoop& loop, FrameSender& link, const LaunchMessage& job,
               std::function<void(const std::string& text)> warn);
  Result<void> listen();
  void accept();
  void on_readable(Connections::iterator connection);
  // Takes what has arrived. Returns whether more may come.
  bool read(Connections::iterator connection);
  // Takes a frame. Returns false if it breaks the rules.
  bool take(Connections::iterator connection, const AgentFrame& frame);
  bool greet(Connections::iterator connection, const AgentFrame& frame);
  void write(Connections::iterator connection);
  // Ends a connection. Its member is disconnected if it takes part.
  void close(Connections::iterator connection);
  void forget(Connections::iterator connection);
  void report_disconnected();

  const EventLoop& loop_;
  FrameSender& link_;
  std::optional<std::vector<std::uint8_t>> key_;  // the job's
  std::set<std::uint32_t> members_;
  const std::function<void(const std::string& text)> warn_;
  std::string path_;
  Fd listener_;
  FdEvent acceptable_;
  Timer accept_again_;  // after a shortage of descriptors or memory
  Connections connections_;
  ByMember by_member_;                    // those that have greeted
  std::set<std::uint32_t> disconnected_;  // not reported yet
  Timer disconnected_timer_;
  bool warned_ = false;
};

}  // namespace hvdrun
