// Lets in connections that prove that they may come in, and limits what the others cost.
//
// Any process that reaches a port can connect. So each connection has a time limit to prove itself,
// and the number of those that have not is limited. For one more, the oldest one is dropped that
// has not shown the key, so that a process without the key cannot displace one with it. The kernel
// keeps connections that have sent nothing (make_listener()). A refused connection gets no answer
// and is only counted. If no descriptor is left, a pending connection is dropped; if none is
// pending, the listeners pause for a moment. Accepting never ends by itself.
//
// An Acceptor belongs to one thread and never waits. Its owner waits for fd(), with poll(2) or in
// an event loop, and until wake(), and then calls next().
#pragma once

#include "common/fd.hpp"
#include "common/result.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <poll.h>

namespace common {

// A connection that has not proven itself yet. The subclass has the protocol.
class Candidate {
 public:
  enum class State { waiting, admitted, refused };
  virtual ~Candidate() = default;

  // Reads what has arrived and answers it. Must not wait.
  virtual State advance() = 0;
  // Returns whether it has shown the key, though maybe with a copy of another's message.
  virtual bool has_shown_key() const = 0;
  // Returns the event of poll(2) after which advance() can do more.
  virtual short awaited() const { return POLLIN; }
  virtual int socket() const = 0;
};

class Acceptor {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMostPending = 256;
  struct Limits {
    std::size_t pending = kMostPending;  // connections at one time that have not proven themselves
    std::chrono::milliseconds timeout{10000};  // for each, from its first bytes
  };
  // Makes the candidate of a new connection. Null: the connection is dropped.
  using Begin = std::function<std::unique_ptr<Candidate>(Fd socket)>;

  // Takes sockets from make_listener(). Error: an errno; no descriptor is left.
  static Result<std::unique_ptr<Acceptor>, int> open(std::vector<Fd> listeners, Limits limits,
                                                     Begin begin);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Does what can be done now, until a candidate is admitted, and returns that one. Returns null if
  // none is; then wait for fd() to become readable.
  std::unique_ptr<Candidate> next();
  int fd() const { return events_.get(); }
  // Returns when next() is to be called at the latest; nullopt: when fd() is readable.
  std::optional<Clock::time_point> wake() const;

  // Drops all pending connections.
  void drop_pending();

  // Returns how many connections were dropped that had not shown the key.
  std::size_t refused() const { return refused_; }
  std::size_t pending() const { return pending_.size(); }
  // Returns since when no descriptor has been left for a connection; nullopt if one is.
  std::optional<Clock::time_point> short_since() const { return short_since_; }

 private:
  struct Pending {
    std::unique_ptr<Candidate> candidate;
    Clock::time_point deadline;
    short awaited;
  };
  using PendingById = std::map<std::uint64_t, Pending>;  // the oldest first

  Acceptor(std::vector<Fd> listeners, Limits limits, Begin begin, Fd events);
  bool watch(int fd, short event, std::uint64_t id, int operation) const;
  void watch_listeners(short event, int operation) const;
  std::unique_ptr<Candidate> accept_some(int listener);
  std::unique_ptr<Candidate> admit(Fd socket);
  std::unique_ptr<Candidate> advance(PendingById::iterator position);
  bool make_room();
  void drop(PendingById::iterator position);
  void drop_late();
  void pause();

  Fd events_;  // epoll(7)
  std::vector<Fd> listeners_;
  Limits limits_;
  Begin begin_;
  PendingById pending_;
  std::uint64_t next_id_;
  std::size_t refused_ = 0;
  std::optional<Clock::time_point> paused_until_;
  std::optional<Clock::time_point> short_since_;
};

}  // namespace common
