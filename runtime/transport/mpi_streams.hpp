// The thread that calls MPI for one MpiStreams, and what the two hand to each other.
//
// A thread of its own, as MPI may not come back from a call once a rank is lost: Open MPI 4.1 over
// TCP locks itself out. Then that thread is left behind with what it has, and whoever waits for
// data is told by the bridges. It takes no signals, SIGPIPE in particular, and sleeps while there
// is nothing to do.
#pragma once

#include "base/result.hpp"
#include "transport/mpi_library.hpp"
#include "transport/streams.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include <sys/uio.h>

namespace libhvd {

// A way to the rank that serves the channel on another host.
struct MpiEnd {
  int channel;
  int host;
  int rank;    // among those of the streams
  int number;  // MPI's rank
  int tag;     // of the channel: nobody else uses it between the two
};

struct MpiMessage {
  // What is longer goes in several messages.
  static constexpr std::size_t kMostBytes = std::size_t{256} * 1024;

  std::unique_ptr<std::byte[]> memory;  // of kMostBytes
  std::size_t bytes = 0;
  hvd_mpi_request request = nullptr;
  bool done = false;
};

class MpiProgressThread {
 public:
  // Links have the numbers of their ends. Error: there can be no thread.
  static Result<std::shared_ptr<MpiProgressThread>> start(const MpiLibrary& mpi,
                                                          const std::vector<MpiEnd>& ends);

  // These are the owner's, and do not wait for MPI.
  void send(std::size_t link, MpiMessage message);
  // What is known of a link, and what has come of it since the last call, in order.
  struct News {
    std::deque<MpiMessage> come;
    std::uint64_t sent = 0;  // messages since the beginning
    bool lost = false;
  };
  News news(std::size_t link);
  // While the owner waits, what comes is taken; returns when there is news, after `most_ms` at the
  // latest.
  void wait(int most_ms);
  MpiMessage message();  // an empty one
  void recycle(MpiMessage message);

  // The last call. Returns shortly, also when the thread does not.
  void stop();

 private:
  struct Link {
    explicit Link(const MpiEnd& opened) : end(opened) {}
    MpiEnd end;
    // Under the mutex:
    std::deque<MpiMessage> to_send;
    News news;
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
  bool waited_for_ = false;
  bool news_ = false;
  bool stop_ = false;
  bool ended_ = false;
  std::vector<MpiMessage> free_;
};

// Streams over MPI's messages from rank to rank (mpi_plugin.h).
//
// MPI sees memory of ours only, never the caller's: what it was once given, nobody can take back
// from it when a rank is lost, and it may be read or written long after the call has failed. So
// data is copied once on each side, while it is in caches. Whatever comes is taken from MPI in any
// turn, asked for or not, as a sender's message may be on its way only once it is taken.

class MpiStreams final : public Streams {
 public:
  // `ends`: one for each channel that this rank serves and each other host. Error: there can be no
  // thread.
  static Result<std::shared_ptr<MpiStreams>> start(StreamPlan plan, const MpiLibrary& mpi,
                                                   const std::vector<MpiEnd>& ends);
  ~MpiStreams() override;

  Transport transport() const override { return Transport::mpi; }
  void send(int channel, int host, const void* data, std::size_t bytes) override;
  void receive(int channel, int host, void* data, std::size_t bytes) override;
  void mark() override;
  void call_due() override;
  StepBarrier::Turn turn(int most_ms) override;
  // The thread is not there, and must not be waited for.
  void close_in_child() override { in_child_ = true; }

 private:
  struct Link {
    std::size_t index;
    MpiEnd end;
    std::uint64_t told = 0;  // messages since the beginning: told to send, by the mark, due, sent
    std::uint64_t marked = 0;
    std::uint64_t due = 0;
    std::uint64_t sent = 0;
    std::deque<MpiMessage> come = {};
    std::size_t taken = 0;      // bytes of the first of these
    std::deque<iovec> in = {};  // where they are to go
    bool lost = false;

    bool over() const { return in.empty() && sent >= due; }
  };

  MpiStreams(StreamPlan plan, std::shared_ptr<MpiProgressThread> progress,
             const std::vector<MpiEnd>& ends);

  Link& link(int channel, int host);
  void take_news(Link& link);
  bool deliver(Link& link);
  StepBarrier::Turn progress(bool& moved);

  std::shared_ptr<MpiProgressThread> progress_;
  std::deque<Link> links_;
  bool in_child_ = false;
};

}  // namespace libhvd
