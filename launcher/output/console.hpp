// Turns the ranks' streams into labelled lines for the screens of stdout and stderr (one screen if
// both are the same place). It owns a LineAssembler for each stream and the time-outs of unfinished
// lines. Writes into byte queues; it has no descriptor and no clock. Loop thread only.
#pragma once

#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "output/label.hpp"
#include "output/line_assembler.hpp"
#include "output/line_folder.hpp"
#include "output/screen.hpp"
#include "output/stream.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdrun {

class Console {
 public:
  using Steady = LineAssembler::Steady;

  struct Place {
    ByteQueue* queue = nullptr;  // outlives the console
    Screen::Columns columns;
    Labels::Color color = Labels::Color::off;
    bool terminal = false;
    bool is_file = false;  // a regular one that has stdout and stderr, such as a batch job's
    // From so many ranks on, equal lines of several ranks are shown once; nullopt: never.
    std::optional<std::size_t> folds_from = {};
    // Equal lines of ranks that fail are shown once, however few ranks there are.
    bool folds_failures = false;
  };

  // `err` has no queue if stdout and stderr are the same place. Error: the label is wrong
  // (parse_label).
  static Result<std::unique_ptr<Console>> make(const OutputSpec& spec, Place out, Place err);

  // Sets the ranks that write from here on. At a restart they are as many as before, perhaps on
  // other hosts.
  void begin(const Placement& placement);
  // Adds a rank, with the next number.
  void add(const std::string& host, const RankPlacement& rank);

  // Drops the bytes of ranks that spec.only_ranks leaves out.
  void write(int rank, Stream stream, std::string_view bytes, OutputTime time, Steady now);
  // What the rank writes next says that it fails. For a second its lines wait for the equal ones of
  // others.
  void begin_failure(int rank, Steady now);
  void close(int rank, Stream stream);
  // Returns whether what the rank writes to the stream goes to the terminal or file that notes go
  // to.
  bool shows_with_notes(int rank, Stream stream) const;
  // Returns the bytes of lines that were to go there, and are shown as those of another rank.
  std::size_t folded_with_notes() const;
  // Returns the bytes that wait there after the rank's lines.
  std::size_t bytes_after(int rank) const;
  // Lines that wait to be folded are shown first.
  void note(std::string_view text) {
    show_folded();
    screen(Stream::err).note(text);
  }
  // Shows the lines that wait to be folded.
  void show_folded();
  // See Screen.
  void status(std::vector<std::string> fields) { screen(Stream::err).status(std::move(fields)); }
  void draw_status() { screen(Stream::err).draw_status(); }
  void erase_status() { screen(Stream::err).erase_status(); }
  bool shows_status() const { return (err_ ? *err_ : out_).screen.shows_status(); }

  // Returns when to call tick() next; nullopt if not before the next write().
  std::optional<Steady> next_tick() const { return next_tick_; }

  // Shows the unfinished lines whose time-out has passed. Shows none while ranks are `held_back`
  // because a screen is too slow: the rest of a line may be waiting here.
  void tick(Steady now, bool held_back);

 private:
  struct Face {
    Face(const OutputSpec& spec, Place place)
        : screen(*place.queue, std::move(place.columns), place.terminal),
          is_terminal(place.terminal),
          is_file(place.is_file),
          options{spec.timestamps, place.color},
          labels({}, {}, options),
          folds_from(place.folds_from),
          folds_failures(place.folds_failures) {}
    Screen screen;
    bool is_terminal;
    bool is_file;
    Labels::Options options;
    Labels labels;
    std::optional<std::size_t> folds_from;  // ranks
    bool folds_failures;
    // Each from its first line on.
    std::optional<LineFolder> folder;
    std::optional<LineFolder> failures;
  };

  Console(std::optional<LabelTemplate> label, const OutputSpec& spec, Place out, Place err);

  Face& face(Stream stream) { return stream == Stream::err && err_ ? *err_ : out_; }
  const Face& face(Stream stream) const { return stream == Stream::err && err_ ? *err_ : out_; }
  static std::size_t assembler_of(std::size_t rank, Stream stream) {
    return rank * 2 + (stream == Stream::err ? 1 : 0);
  }
  Screen& screen(Stream stream) { return face(stream).screen; }
  // Calls it for each folder.
  void for_folders(const std::function<void(const Face& place, LineFolder& folder)>& call);
  LineFolder& made(std::optional<LineFolder>& folder, Face& place, LineFolder::For use);
  void end_failure(std::size_t rank);
  // Both streams may have the same terminal, though it is one place only for a shared descriptor.
  bool shows_notes(const Face& place) const {
    return place.is_terminal || (place.is_file && !err_);
  }
  // Has a folder if the lines are folded there.
  LineAssembler::Outlet outlet(std::size_t rank, Stream stream);
  void begin_folders();
  void add_streams(int rank);
  // Returns for each rank how many of its open streams come to the place.
  std::vector<int> open_streams(const Face& place) const;
  int open_streams(const Face& place, std::size_t rank) const;
  // Lets next_tick_ be no later than the folders need.
  void plan_folders();
  // Returns nullptr for a rank that is not shown.
  LineAssembler* assembler(int rank, Stream stream);

  std::optional<LabelTemplate> label_;  // the user's; nullopt: the default for the number of ranks
  std::optional<RankSet> only_ranks_;
  Face out_;
  std::optional<Face> err_;
  std::size_t held_ = 0;
  std::vector<LineAssembler> assemblers_;         // by rank, two each
  std::vector<bool> shown_;                       // by rank
  std::vector<std::optional<Steady>> failed_at_;  // by rank: its newest failure, for a second

  std::vector<std::size_t> waiting_;  // assemblers that tick() looks at
  std::vector<bool> is_waiting_;
  std::optional<Steady> next_tick_;
  Steady quiet_from_{};
  Steady now_{};                    // of the last call
  std::vector<bool> is_closed_;     // by assembler
  const std::optional<int> apart_;  // the rank that has the terminal, and prints no lines here
  bool postponed_ = false;
};

}  // namespace hvdrun
