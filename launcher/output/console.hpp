// What the ranks' streams look like where a person reads them: the screens for stdout and stderr
// (one, where both are the same), a LineAssembler a stream, and the time-outs of unfinished lines.
// Writes into byte queues; no descriptor, no clock. On the loop's thread.
#pragma once

#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "output/label.hpp"
#include "output/line_assembler.hpp"
#include "output/stream.hpp"
#include "output/terminal.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
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
  };

  // `err` without a queue: stdout and stderr are the same place. Error: the label (parse_label).
  static Result<std::unique_ptr<Console>> make(const OutputSpec& spec, Place out, Place err);

  // The ranks that will write from here on: the first, or as many as before on other hosts.
  void begin(const Placement& placement);

  // Bytes of ranks that spec.only_ranks leaves out are dropped.
  void write(int rank, Stream stream, std::string_view bytes, OutputTime time, Steady now);
  void close(int rank, Stream stream);
  void note(std::string_view text) { screen(Stream::err).note(text); }
  void status(std::string_view text) { screen(Stream::err).status(text); }

  // When tick() is to be called next; none: not before the next write().
  std::optional<Steady> next_tick() const { return next_tick_; }

  // Shows the unfinished lines whose time has come. While `held_back`, when ranks cannot go on
  // because a screen is too slow, none: the rest of a line may be waiting for us.
  void tick(Steady now, bool held_back);

 private:
  struct Face {
    Face(const OutputSpec& spec, Place place)
        : screen(*place.queue, std::move(place.columns), place.terminal),
          options{spec.timestamps, place.color},
          labels({}, {}, options) {}
    Screen screen;
    Labels::Options options;
    Labels labels;
  };

  Console(std::optional<LabelTemplate> label, const OutputSpec& spec, Place out, Place err);

  Face& face(Stream stream) { return stream == Stream::err && err_ ? *err_ : out_; }
  Screen& screen(Stream stream) { return face(stream).screen; }
  LineAssembler::Outlet outlet(Stream stream) {
    return {face(stream).screen, face(stream).labels, held_};
  }
  // None for ranks that are not shown.
  LineAssembler* assembler(int rank, Stream stream);

  std::optional<LabelTemplate> label_;  // the user's; none: by the number of ranks
  std::optional<RankSet> only_ranks_;
  Face out_;
  std::optional<Face> err_;
  std::size_t held_ = 0;
  std::vector<LineAssembler> assemblers_;  // by rank, two each
  std::vector<bool> shown_;                // by rank

  std::vector<std::size_t> waiting_;  // assemblers that tick() looks at
  std::vector<bool> is_waiting_;
  std::optional<Steady> next_tick_;
  Steady quiet_from_{};
  bool postponed_ = false;
};

}  // namespace hvdrun
