// Keeps back the tracebacks of ranks that fail only because another rank has gone, so that the
// first failure is not lost among them. Such a traceback ends with an exception that
// is_peer_error() knows.
//
// A traceback on a rank's stderr waits until its exception has come. If that is another one, all is
// shown at once. Else it waits for a rank that has failed before, and is then put aside; what
// follows it on that stderr is shown. If no rank has failed within kPatience, it is shown. settle()
// shows what was put aside of the rank that is to blame after all. The files of ranks and the
// report have everything.
//
// Loop thread only; nothing fails. It has no clock: the caller passes times.
#pragma once

#include "output/label.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

class FollowOnErrors {
 public:
  using Steady = std::chrono::steady_clock::time_point;
  // `fails`: the bytes begin with a traceback, or with what C++ says of an exception.
  using Show = std::function<void(int rank, std::string_view bytes, OutputTime time, bool fails)>;

  static constexpr std::chrono::milliseconds kPatience{1000};
  // Python prints a traceback within this time. If the rest has not come by then, what has is
  // shown.
  static constexpr std::chrono::milliseconds kUnfinished{200};
  static constexpr std::size_t kMostHeld = 64 * 1024;

  explicit FollowOnErrors(Show show) : show_(std::move(show)) {}

  // Sets how many ranks write from here on.
  void begin(std::size_t ranks);
  // A rank has joined, with the next number.
  void add() { ranks_.emplace_back(); }

  // Takes what the rank has written to stderr, and shows what does not wait.
  void write(int rank, std::string_view bytes, OutputTime time, Steady now);

  // A rank has failed. Its own traceback decides whether it is the cause for others.
  void failed(int rank);

  // The rank's stderr has ended. Shows a traceback without its end: the rest will not come.
  void close(int rank);

  // Shows what waits, and what was put aside of the rank to blame; puts aside what waits of the
  // others if there is such a rank. The ranks have ended.
  void settle(std::optional<int> first_failure);

  // Returns when to call tick(); nullopt if nothing waits.
  std::optional<Steady> next_tick() const;
  void tick(Steady now);

 private:
  struct Rank {
    std::string held;        // from a traceback's first byte on
    std::size_t parsed = 0;  // bytes of its whole lines that were looked at
    std::size_t block = 0;   // bytes up to the exception's end; 0: it has not come
    std::string aside;       // tracebacks that are not shown
    std::string last_line;   // the end of what was shown
    OutputTime time{};
    Steady until{};
  };

  Rank& rank(int number) { return ranks_[static_cast<std::size_t>(number)]; }
  void show(int number, std::string_view bytes, OutputTime time, bool fails = false);
  void show_held(int number);
  void look(int number, Steady now);
  bool has_cause_for(int number) const;
  void put_aside(int number);

  Show show_;
  std::vector<Rank> ranks_;
  std::set<int> waiting_;  // ranks with held bytes
  std::set<int> causes_;   // ranks that failed, and not for a peer
};

}  // namespace hvdrun
