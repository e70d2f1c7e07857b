// Helpers of the tests of output/: placements, consoles whose clock the test sets, descriptors.
#pragma once

#include "../temporary_folder.hpp"
#include "base/system.hpp"
#include "common/fd.hpp"
#include "output/console.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace hvdrun {

// Returns a placement of `ranks` ranks on hosts "n0", "n1", …, with `per_host` on each.
Placement placement_of(int ranks, int per_host = 1000000);

// A console that writes into strings. Its clock moves only when the test calls pass() or stall().
class TestConsole {
 public:
  struct Setup {
    int ranks = 2;
    OutputSpec spec = {};
    int columns = -1;      // of a terminal; -1: it cannot erase
    bool shared = true;    // stdout and stderr are the same file
    bool terminal = true;  // a user watches it
  };

  explicit TestConsole(Setup setup) {
    Console::Place out{&out_, {}, {}, setup.terminal},
        err{setup.shared ? nullptr : &err_, {}, {}, setup.terminal};
    if (setup.spec.fold == FoldLines::on) out.folds_from = err.folds_from = 0;
    if (setup.spec.fold == FoldLines::in_large_log) out.folds_from = err.folds_from = 16;
    out.folds_failures = err.folds_failures = setup.spec.fold != FoldLines::off;
    columns_ = setup.columns;
    if (setup.columns >= 0) out.columns = err.columns = [this] { return columns_; };
    auto made = Console::make(setup.spec, out, err);
    if (!made) throw std::runtime_error(made.error().message);
    console_ = std::move(*made);
    console_->begin(placement_of(setup.ranks));
  }
  TestConsole() : TestConsole(Setup{}) {}

  void write(int rank, std::string_view text, Stream stream = Stream::out) {
    console_->write(rank, stream, text, wall_, now_);
  }
  // Writes what says that the rank fails.
  void fail(int rank, std::string_view text) {
    console_->begin_failure(rank, now_);
    write(rank, text, Stream::err);
  }
  void close(int rank, Stream stream = Stream::out) { console_->close(rank, stream); }
  void note(std::string_view text) { console_->note(text); }
  void status(std::vector<std::string> fields) {
    console_->status(std::move(fields));
    end_turn();
  }
  // Does what the loop does after all output of a turn.
  void end_turn() { console_->draw_status(); }
  // Changes the width of the terminal.
  void resize(int columns) {
    columns_ = columns;
    console_->erase_status();
    end_turn();
  }

  // Lets time pass. Every tick happens when it is due.
  void pass(std::chrono::milliseconds time, bool held_back = false) {
    const auto until = now_ + time;
    while (console_->next_tick() && *console_->next_tick() <= until) {
      now_ = std::max(now_, *console_->next_tick());
      console_->tick(now_, held_back);
    }
    now_ = until;
  }
  // Lets time pass with only one turn of the loop, at its end.
  void stall(std::chrono::milliseconds time) {
    now_ += time;
    console_->tick(now_, false);
  }
  void set_wall(OutputTime time) { wall_ = time; }
  bool waits() const { return console_->next_tick().has_value(); }

  // Returns the output since the last call.
  std::string out() { return take(out_); }
  std::string err() { return take(err_); }

 private:
  static std::string take(ByteQueue& queue) {
    std::string text(queue.view());
    queue.clear();
    return text;
  }

  ByteQueue out_, err_;
  int columns_ = 0;
  std::unique_ptr<Console> console_;
  LineAssembler::Steady now_{std::chrono::hours(1)};
  OutputTime wall_{};
};

std::string contents(const std::filesystem::path& path);

// Returns the bytes that can be read at once from a non-blocking descriptor.
std::string read_available(int fd);

Pipe pipe_with_nonblocking_reader();

}  // namespace hvdrun
