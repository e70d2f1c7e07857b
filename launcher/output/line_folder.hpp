// Folds equal lines that several ranks print at about the same time into one: "[0-63] loading
// checkpoint". LineAssemblers write into it, and it writes to the Screen of one place.
//
// Lines wait here in a queue of groups. A rank's line joins the first equal group after the rank's
// own last one, or begins a group at the end, so that the order within each rank stays. Lines that
// only this rank has printed since do not keep it from an older group: they move before it. A group
// is shown, and all before it, when every rank that still prints has joined it, after kTogether,
// and when kMostHeld bytes wait. On a terminal, which a user watches, a line that one rank has
// printed is shown after kAlone, unless a group of several ranks waits before it. A line of a
// failure waits longer: until no rank has joined it for kTogether, at most kFailures, because the
// same failure reaches ranks one after the other. Such lines have a folder of their own.
//
// PyTorch's "[rank3]: " before a line of rank 3 makes no difference, and is not shown before a line
// of several ranks.
//
// Loop thread only; nothing fails. It has no clock: the caller passes times.
#pragma once

#include "output/label.hpp"
#include "output/screen.hpp"
#include "output/stream.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hvdrun {

class LineFolder {
 public:
  using Steady = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::milliseconds kAlone{100};
  static constexpr std::chrono::milliseconds kTogether{1000};
  static constexpr std::chrono::milliseconds kFailures{5000};
  static constexpr std::size_t kMostHeld = 4 * 1024 * 1024;
  // A longer line is shown at once.
  static constexpr std::size_t kLongestLine = 64 * 1024;

  enum class For { terminal, file, failures };

  LineFolder(Screen& screen, Labels& labels, For use)
      : screen_(screen), labels_(labels), use_(use) {}

  // Sets the ranks: `streams` has, for each of them, how many of its streams come here. Shows what
  // waits.
  void begin(std::vector<int> streams);

  // Adds a rank, with the next number.
  void add_rank(int streams);

  // Takes lines that each end with a newline.
  void add(int rank, Stream stream, std::string_view lines, OutputTime time, Steady now);

  // Returns the bytes of the lines that wait after those of the rank.
  std::size_t bytes_after(int rank) const;

  // Shows the rank's lines, because something follows that is shown at once.
  void show_lines_of(int rank);

  // One of the rank's streams has ended.
  void close(int rank);

  void flush();

  // Returns the bytes of lines that are shown as those of another rank.
  std::size_t folded() const { return folded_; }

  // Returns when to call tick(); nullopt if nothing waits.
  std::optional<Steady> next_tick() const { return groups_.empty() ? std::nullopt : tick_at_; }
  void tick(Steady now);

 private:
  // A line of one rank, which moved before a group.
  struct Moved {
    int rank;
    Stream stream;
    OutputTime time;
    std::string line;
  };

  struct Group {
    std::string line;        // with its newline
    std::size_t prefix = 0;  // bytes of it that only this rank prints
    Stream stream = Stream::out;
    OutputTime time{};
    Steady since{};
    Steady renewed{};  // since when it waits
    std::size_t hash = 0;
    std::uint64_t previous = 0;  // the number of the last group before it with that hash, plus one
    std::size_t count = 0;       // of ranks; 0: the line has moved
    std::size_t open = 0;        // of these, the ranks that still print
    int only = 0;                // the rank, if it is one
    std::vector<std::uint64_t> ranks = {};  // a bit for each; empty while there is one
    std::vector<Moved> before = {};         // shown before it
  };

  // Groups have numbers in the order in which they begin. The queue has those from first_ on.
  Group& group(std::uint64_t number) { return groups_[static_cast<std::size_t>(number - first_)]; }
  std::uint64_t end() const { return first_ + groups_.size(); }
  // `text`: a line without its prefix.
  bool is_equal(const Group& group, Stream stream, std::string_view text) const {
    return group.stream == stream && std::string_view(group.line).substr(group.prefix) == text;
  }
  // Returns how long the group waits for more ranks.
  std::chrono::milliseconds patience(const Group& group) const {
    return group.count > 1 || use_ != For::terminal ? kTogether : kAlone;
  }
  std::optional<std::uint64_t> find(std::uint64_t from, int rank, Stream stream,
                                    std::string_view text, std::size_t hash);
  void begin_group(int rank, Group group);
  void join(std::uint64_t number, int rank, Steady now);
  // Moves the rank's own lines in the groups after `number` before that group.
  void move_own_lines(std::uint64_t number, int rank);
  void plan(Steady time);
  void plan_first();
  void show_before(std::uint64_t number);
  void show(const Group& group);
  void show_complete();

  Screen& screen_;
  Labels& labels_;
  const For use_;
  std::deque<Group> groups_;
  std::uint64_t first_ = 0;
  std::size_t held_ = 0;
  std::size_t folded_ = 0;
  std::uint64_t complete_ = 0;  // the number after the newest group that all have joined
  std::optional<Steady> tick_at_;
  std::vector<std::uint64_t> next_;  // by rank: the number after its last group
  // By rank: the number after the last group with others. From there on it may join groups: they
  // have no line of the rank but lines of its own.
  std::vector<std::uint64_t> joined_;
  std::vector<std::deque<std::uint64_t>> own_;  // by rank: groups that it began after that
  std::vector<int> streams_;                    // by rank: how many are open
  std::size_t printing_ = 0;                    // ranks with an open stream
  std::unordered_map<std::size_t, std::uint64_t> last_with_;  // by hash: number plus one
  std::vector<std::uint64_t> labelled_;                       // the ranks of ranks_text_
  std::string ranks_text_;
};

}  // namespace hvdrun
