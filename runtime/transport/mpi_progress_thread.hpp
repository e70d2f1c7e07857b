// The thread that calls MPI for one MpiStreams, and the queues between the two.
//
// MPI has a thread of its own, because a call of it may never return once a rank is lost: Open MPI
// 4.1 over TCP locks itself out. Such a thread is left alone with what it has, and the bridges
// report the failure to the threads that wait for data. The thread takes no signals, SIGPIPE in
// particular, and sleeps while there is nothing to do.
//
// The public functions are for the owner's thread. They do not wait for MPI.
#pragma once

#include "base/error.hpp"
#include "transport/mpi_library.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace libhvd {

// A way to the rank that serves the channel on another host.
struct MpiEnd {
  int channel;
  int host;
  int rank;    // among the ranks of the streams
  int number;  // MPI's rank
  int tag;     // of the channel; nothing else uses it between the two ranks
};

struct MpiMessage {
  // Longer data goes in several messages.
  static constexpr std::size_t kMostBytes = std::size_t{256} * 1024;

  std::unique_ptr<std::byte[]> memory;  // of kMostBytes
  std::size_t bytes = 0;
  hvd_mpi_request request = nullptr;
  bool done = false;
};

class MpiProgressThread {
 public:
  // Starts the thread. The number of a link is the index of its end. Error: no thread can be
  // started.
  static Result<std::shared_ptr<MpiProgressThread>> start(const MpiLibrary& mpi,
                                                          const std::vector<MpiEnd>& ends);

  void send(std::size_t link, MpiMessage message);
  // What has happened on a link.
  struct Progress {
    std::deque<MpiMessage> received;  // since the last call of take_progress(), in order
    std::uint64_t sent = 0;           // messages, since the beginning
    bool lost = false;
  };
  Progress take_progress(std::size_t link);
  // Waits until there is progress on a link, for `most_ms` at most. The thread receives messages
  // while the owner waits.
  void wait(int most_ms);
  // Returns an empty message, with memory.
  MpiMessage message();
  // Takes the memory of a message back.
  void recycle(MpiMessage message);

  // Ends the thread, or leaves it alone if it does not end within a second. It must be the last
  // call.
  void stop();

 private:
  struct Link {
    explicit Link(const MpiEnd& opened) : end(opened) {}
    MpiEnd end;
    // Guarded by the mutex:
    std::deque<MpiMessage> to_send;
    Progress progress;
    // The thread's own:
    std::deque<MpiMessage> out;
    std::deque<MpiMessage> in;
    bool lost = false;
  };

  MpiProgressThread(const MpiLibrary& mpi, const std::vector<MpiEnd>& ends);

  void run();
  bool begin_turn(bool idle);
  bool progress();
  bool send_some(Link& link);
  bool find_some(Link& link);
  bool take_some(Link& link);
  bool is_done(Link& link, MpiMessage& message);
  void check(Link& link, int error);
  void lose(Link& link, const std::string& why);
  void end();

  const hvd_mpi_plugin& mpi_;
  std::deque<Link> links_;

  std::mutex mutex_;  // never held while MPI is called
  std::condition_variable work_;
  std::condition_variable changed_;
  bool owner_waits_ = false;
  bool has_progress_ = false;
  bool stop_ = false;
  bool ended_ = false;
  std::vector<MpiMessage> free_;
};

}  // namespace libhvd
