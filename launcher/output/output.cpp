#include "output/output.hpp"

#include "common/text.hpp"
#include "output/color.hpp"
#include "output/console.hpp"
#include "output/follow_on_errors.hpp"
#include "output/last_lines.hpp"
#include "output/own_line.hpp"
#include "output/rank_files.hpp"
#include "output/shared_terminal.hpp"
#include "output/sink.hpp"

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

#include <event2/event.h>
#include <poll.h>

namespace hvdrun {

namespace {

using Steady = std::chrono::steady_clock;

// Bytes that wait for slow readers. Ranks are held back above the first number, until they are
// below the second.
constexpr std::size_t kHighWater = 4 * 1024 * 1024;
constexpr std::size_t kLowWater = 1024 * 1024;

// Bytes that are collected within one turn of the loop before they are written: enough for few
// system calls, and few enough to stay in the processor's cache.
constexpr std::size_t kWriteAt = 128 * 1024;

// Bytes on a terminal after which a reader no longer sees what came before them: about 16 lines.
constexpr std::size_t kInSight = 1024;
// The same in a file, where a reader scrolls.
constexpr std::size_t kInSightInFile = 4096;

// In the log of so many ranks, and on their terminal, equal lines are noise.
constexpr std::size_t kManyRanks = 16;

struct EventDeleter {
  void operator()(event* pointer) const { event_free(pointer); }
};
using EventPointer = std::unique_ptr<event, EventDeleter>;

// Returns whether lines can be erased there.
bool can_erase(const Sink& sink) {
  return sink.is_terminal() && TerminalEnvironment::of_process().has_escapes();
}

timeval to_timeval(Steady::duration duration) {
  using namespace std::chrono;
  // Rounds up, because a tick before its time does nothing.
  const auto us = std::max(ceil<microseconds>(duration), microseconds(0)).count();
  return {static_cast<time_t>(us / 1'000'000), static_cast<suseconds_t>(us % 1'000'000)};
}

}  // namespace

class Output::Impl {
 public:
  static Result<std::unique_ptr<Impl>> make(event_base* loop, const OutputSpec& spec, Events events,
                                            Descriptors descriptors);

  void write(int rank, Stream stream, std::string_view bytes, OutputTime time);
  void set_raw(bool raw);
  void close(int rank, Stream stream);
  void note(std::string_view text);
  bool has_lost_notes() const;
  bool note_again(const std::vector<std::string>& lines, std::chrono::milliseconds timeout);
  ProgressStyle progress_style() const { return progress_style_; }
  void status(std::vector<std::string> fields);
  void redraw_status();
  bool congested() const { return congested_; }
  bool idle() const;
  std::size_t pending() const;
  void flush(std::chrono::milliseconds timeout);
  std::vector<std::string> losses() const;
  Result<void> begin(const Placement& placement);
  void add(const std::string& host, const RankPlacement& rank);
  std::vector<std::string> last_stderr(int rank) const;
  bool stderr_in_sight(int rank) const;
  void failed(int rank);
  void settle(std::optional<int> first_failure);
  const RecentOutput& recent() const { return recent_; }

 private:
  // A sink with the event that waits for its descriptor.
  struct Outgoing {
    Sink sink;
    EventPointer writable;
    bool blocked = false;
    bool error_said = false;
  };

  Impl(event_base* loop, const OutputSpec& spec, Events events)
      : loop_(loop),
        choice_(spec.on_error),
        directory_(spec.directory),
        part_(spec.part),
        terminal_rank_(spec.terminal_rank),
        events_(std::move(events)),
        follow_on_([this](int rank, std::string_view bytes, OutputTime time, bool fails) {
          if (fails) console_->begin_failure(rank, Steady::now());
          show(rank, Stream::err, bytes, time);
        }) {}

  Outgoing* add_sink(int fd, const char* name);
  void make_events();
  Console::Place place_of(Outgoing* outgoing, const OutputSpec& spec) const;
  ProgressStyle find_progress_style(ProgressMode mode, int out) const;
  // Whether hvdrun's own lines are on the terminal that a rank has.
  bool has_shared_notes() const { return shared_ && sinks_.size() == 1; }

  void show(int rank, Stream stream, std::string_view bytes, OutputTime time);
  // Returns how many bytes of written_ are shown, or will be: equal lines of several ranks once.
  std::size_t shown() const { return written_ - console_->folded_with_notes(); }
  void pump(Outgoing& outgoing);
  void pump_all();
  void after_lines();
  void wake_later();
  void restart_timer();
  void on_timer();
  void report_undo();
  void report_changes();
  bool has_changes_to_report() const;

  event_base* loop_;
  const OnOutputError choice_;
  const std::filesystem::path directory_;
  const JobPart part_;
  const std::optional<int> terminal_rank_;
  const Events events_;
  ProgressStyle progress_style_ = ProgressStyle::none;
  std::vector<std::unique_ptr<Outgoing>> sinks_;  // the last one shows notes
  std::unique_ptr<SharedTerminal> shared_;        // if a rank has the terminal
  std::unique_ptr<Console> console_;
  FollowOnErrors follow_on_;
  std::optional<RankFiles> files_;
  bool files_error_said_ = false;
  std::vector<LastLines> last_stderr_;  // by rank
  RecentOutput recent_;
  std::size_t written_ = 0;            // bytes of ranks where hvdrun's own lines go
  std::vector<std::size_t> shown_at_;  // by rank: shown() at its last stderr; 0: none was shown
  EventPointer later_;                 // writes what this turn of the loop collects
  EventPointer timer_;                 // the next tick of console_ or follow_on_
  std::optional<Steady::time_point> timer_at_;
  bool congested_ = false;
  bool colors_notes_ = false;
  std::string undo_;
};

Result<std::unique_ptr<Output::Impl>> Output::Impl::make(event_base* loop, const OutputSpec& spec,
                                                         Events events, Descriptors descriptors) {
  std::unique_ptr<Impl> impl(new Impl(loop, spec, std::move(events)));
  const bool shared = same_place(descriptors.out, descriptors.err);
  Outgoing* out =
      impl->add_sink(descriptors.out, shared ? "hvdrun's stdout and stderr" : "hvdrun's stdout");
  Outgoing* err = shared ? nullptr : impl->add_sink(descriptors.err, "hvdrun's stderr");
  auto place = impl->place_of(out, spec);
  if (spec.terminal_rank) {
    impl->shared_ = std::make_unique<SharedTerminal>(*place.queue, std::move(place.columns));
    place.queue = &impl->shared_->lines();
    place.columns = nullptr;
  }
  const auto err_place = impl->place_of(err, spec);
  impl->colors_notes_ = (shared ? place : err_place).color != Labels::Color::off;
  HVD_TRY(impl->console_, Console::make(spec, place, err_place));
  impl->progress_style_ = impl->find_progress_style(spec.progress, descriptors.out);
  impl->make_events();
  return impl;
}

Output::Impl::Outgoing* Output::Impl::add_sink(int fd, const char* name) {
  sinks_.push_back(std::make_unique<Outgoing>(Outgoing{Sink(fd, name), nullptr, false, false}));
  return sinks_.back().get();
}

Console::Place Output::Impl::place_of(Outgoing* outgoing, const OutputSpec& spec) const {
  if (outgoing == nullptr) return {};
  Sink& sink = outgoing->sink;
  const auto environment = TerminalEnvironment::of_process();
  Console::Place place;
  place.queue = &sink.queue();
  if (can_erase(sink)) place.columns = [&sink] { return sink.columns(); };
  place.terminal = sink.is_terminal();
  place.is_file = sink.is_file();
  const bool is_log = place.is_file && sinks_.size() == 1;  // stdout and stderr
  const bool is_read_by_people = place.terminal || (spec.fold == FoldLines::in_large_log && is_log);
  place.folds_failures = spec.fold != FoldLines::off;
  if (spec.fold == FoldLines::on)
    place.folds_from = 0;
  else if (place.folds_failures && is_read_by_people)
    place.folds_from = kManyRanks;
  if (wants_color(spec.color, sink.is_terminal(), environment))
    place.color = environment.has_256_colors() ? Labels::Color::many : Labels::Color::few;
  return place;
}

void Output::Impl::make_events() {
  const auto call_pump_all = [](evutil_socket_t, short, void* context) {
    static_cast<Impl*>(context)->pump_all();
  };
  const auto call_timer = [](evutil_socket_t, short, void* context) {
    static_cast<Impl*>(context)->on_timer();
  };
  later_.reset(event_new(loop_, -1, 0, call_pump_all, this));
  timer_.reset(event_new(loop_, -1, 0, call_timer, this));
}

void Output::Impl::write(int rank, Stream stream, std::string_view bytes, OutputTime time) {
  if (rank < 0 || static_cast<std::size_t>(rank) >= last_stderr_.size()) return;
  if (files_) files_->write(rank, stream, bytes);
  recent_.add(rank, stream, bytes, time);
  if (shared_ && rank == terminal_rank_) {
    const auto index = static_cast<std::size_t>(rank);
    last_stderr_[index].add(bytes);
    written_ += bytes.size();
    shown_at_[index] = shown();
    shared_->write(bytes);
    return after_lines();
  }
  if (stream == Stream::err) {
    last_stderr_[static_cast<std::size_t>(rank)].add(bytes);
    follow_on_.write(rank, bytes, time, Steady::now());
  } else {
    show(rank, stream, bytes, time);
  }
  after_lines();
}

void Output::Impl::show(int rank, Stream stream, std::string_view bytes, OutputTime time) {
  console_->write(rank, stream, bytes, time, Steady::now());
  if (!console_->shows_with_notes(rank, stream)) return;
  written_ += bytes.size();
  if (stream == Stream::err)
    shown_at_[static_cast<std::size_t>(rank)] = shown() - console_->bytes_after(rank);
}

void Output::Impl::failed(int rank) {
  follow_on_.failed(rank);
  after_lines();
}

void Output::Impl::settle(std::optional<int> first_failure) {
  follow_on_.settle(first_failure);
  for (std::size_t rank = 0; rank < last_stderr_.size(); ++rank)
    console_->close(static_cast<int>(rank), Stream::err);
  after_lines();
}

void Output::Impl::set_raw(bool raw) {
  if (shared_) shared_->set_raw(raw);
}

void Output::Impl::close(int rank, Stream stream) {
  if (stream == Stream::err) follow_on_.close(rank);
  console_->close(rank, stream);
  if (shared_ && rank == terminal_rank_ && stream == Stream::out) shared_->leave();
  after_lines();
}

// The text may quote ranks and other hosts. Each line is recognizable as hvdrun's own or as quoted,
// and no control character reaches the terminal.
void Output::Impl::note(std::string_view text) {
  const std::string clean = printable(text);
  for (std::string_view rest = clean; !rest.empty();) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const auto line = rest.substr(0, end);
    const bool is_first = rest.data() == clean.data();
    console_->note(
        own_line(is_first ? std::string(line) : "  | " + std::string(line), colors_notes_));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  after_lines();
}

bool Output::Impl::has_lost_notes() const {
  const Sink& sink = sinks_.back()->sink;
  return sink.failed() && sink.loss() && sink.error()->exit_code != kExitSignalBase + SIGPIPE;
}

bool Output::Impl::note_again(const std::vector<std::string>& lines,
                              std::chrono::milliseconds timeout) {
  Sink& sink = sinks_.back()->sink;
  sink.try_again();
  for (const auto& line : lines) note(line);
  flush(timeout);
  return !sink.failed() && sink.pending() == 0;
}

void Output::Impl::status(std::vector<std::string> fields) {
  if (progress_style_ != ProgressStyle::line) return;
  for (std::string& field : fields) field = escape(field);
  if (has_shared_notes())
    shared_->status(std::move(fields));
  else
    console_->status(std::move(fields));
  wake_later();
}

void Output::Impl::redraw_status() {
  has_shared_notes() ? shared_->erase_status() : console_->erase_status();
  wake_later();
}

// The reader of a pipe (tee, less) may write to the terminal, too, and would tear the line.
Output::ProgressStyle Output::Impl::find_progress_style(ProgressMode mode, int out) const {
  const bool can_draw = can_erase(sinks_.back()->sink);
  switch (mode) {
    case ProgressMode::automatic:
      return can_draw && !TerminalEnvironment::of_process().refuses_color() && !is_pipe(out)
                 ? ProgressStyle::line
                 : ProgressStyle::none;
    case ProgressMode::always:
      return can_draw ? ProgressStyle::line : ProgressStyle::log;
    case ProgressMode::log:
      return ProgressStyle::log;
    case ProgressMode::never:
      break;
  }
  return ProgressStyle::none;
}

void Output::Impl::after_lines() {
  if (shared_) shared_->weave();
  for (const auto& outgoing : sinks_)
    if (!outgoing->blocked && outgoing->sink.pending() >= kWriteAt) pump(*outgoing);
  if (pending() > kHighWater) congested_ = true;
  if (pending() > 0 || has_changes_to_report()) wake_later();
  restart_timer();
}

// Runs pump_all() after the events that are pending now.
void Output::Impl::wake_later() {
  event_active(later_.get(), 0, 0);
}

void Output::Impl::pump(Outgoing& outgoing) {
  const Sink::State state = outgoing.sink.pump();
  outgoing.blocked = state == Sink::State::blocked;
  if (state == Sink::State::more) wake_later();
  if (!outgoing.blocked) return;
  if (!outgoing.writable) {
    const auto call = [](evutil_socket_t, short, void* context) {
      auto* impl = static_cast<Impl*>(context);
      for (const auto& each : impl->sinks_) each->blocked = false;
      impl->pump_all();
    };
    outgoing.writable.reset(event_new(loop_, outgoing.sink.wait_fd(), EV_WRITE, call, this));
  }
  event_add(outgoing.writable.get(), nullptr);
}

void Output::Impl::pump_all() {
  if (!sinks_.back()->blocked)
    has_shared_notes() ? shared_->draw_status() : console_->draw_status();
  report_undo();
  for (const auto& outgoing : sinks_)
    if (!outgoing->blocked) pump(*outgoing);
  report_changes();
}

void Output::Impl::report_undo() {
  if (!events_.on_undo) return;
  std::string undo = shared_ ? shared_->undo() : std::string();
  if (console_->shows_status()) undo = kUndoStatus;
  if (undo == undo_) return;
  undo_ = std::move(undo);
  events_.on_undo(undo_);
}

void Output::Impl::restart_timer() {
  auto next = console_->next_tick();
  const auto other = follow_on_.next_tick();
  if (!next || (other && *other < *next)) next = other;
  if (!next || (timer_at_ && *timer_at_ <= *next)) return;
  timer_at_ = next;
  const timeval delay = to_timeval(*next - Steady::now());
  event_add(timer_.get(), &delay);
}

void Output::Impl::on_timer() {
  timer_at_.reset();
  follow_on_.tick(Steady::now());
  console_->tick(Steady::now(), congested_);
  after_lines();
}

bool Output::Impl::has_changes_to_report() const {
  if (congested_ && pending() <= kLowWater) return true;
  if (files_ && files_->error() && !files_error_said_) return true;
  return std::any_of(sinks_.begin(), sinks_.end(), [](const auto& outgoing) {
    return outgoing->sink.error() && !outgoing->error_said;
  });
}

void Output::Impl::report_changes() {
  const auto say = [this](const Error& error, bool& said) {
    if (std::exchange(said, true) || !events_.on_error) return;
    const bool reader_gone = error.exit_code == kExitSignalBase + SIGPIPE;
    events_.on_error(error, reader_gone || choice_ == OnOutputError::stop);
  };
  for (const auto& outgoing : sinks_)
    if (outgoing->sink.error()) say(*outgoing->sink.error(), outgoing->error_said);
  if (files_ && files_->error()) say(*files_->error(), files_error_said_);
  if (congested_ && pending() <= kLowWater) {
    congested_ = false;
    if (events_.on_relief) events_.on_relief();
  }
}

std::size_t Output::Impl::pending() const {
  std::size_t sum = 0;
  for (const auto& outgoing : sinks_) sum += outgoing->sink.pending();
  return sum;
}

bool Output::Impl::idle() const {
  return pending() == 0 && !has_changes_to_report();
}

void Output::Impl::flush(std::chrono::milliseconds timeout) {
  console_->show_folded();
  const auto until = Steady::now() + timeout;
  for (;;) {
    for (const auto& outgoing : sinks_) outgoing->blocked = false;
    pump_all();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Steady::now());
    if (idle() || left.count() <= 0) return;
    std::vector<pollfd> waiting;
    for (const auto& outgoing : sinks_)
      if (outgoing->blocked) waiting.push_back({outgoing->sink.wait_fd(), POLLOUT, 0});
    if (!waiting.empty()) ::poll(waiting.data(), waiting.size(), static_cast<int>(left.count()));
  }
}

std::vector<std::string> Output::Impl::losses() const {
  std::vector<std::string> losses;
  for (const auto& outgoing : sinks_)
    if (auto loss = outgoing->sink.loss()) losses.push_back(std::move(*loss));
  if (files_) {
    auto of_files = files_->losses();
    std::move(of_files.begin(), of_files.end(), std::back_inserter(losses));
  }
  return losses;
}

Result<void> Output::Impl::begin(const Placement& placement) {
  console_->begin(placement);
  follow_on_.begin(static_cast<std::size_t>(placement.size));
  recent_.begin(placement.size);
  last_stderr_.assign(static_cast<std::size_t>(placement.size), {});
  shown_at_.assign(static_cast<std::size_t>(placement.size), 0);
  if (!directory_.empty() && !files_) {
    HVD_TRY(files_, RankFiles::create(directory_, placement.size, part_));
  }
  return {};
}

void Output::Impl::add(const std::string& host, const RankPlacement& rank) {
  console_->add(host, rank);
  follow_on_.add();
  last_stderr_.emplace_back();
  recent_.grow(static_cast<int>(last_stderr_.size()));
  shown_at_.push_back(0);
  if (files_) files_->add(last_stderr_.size());
}

std::vector<std::string> Output::Impl::last_stderr(int rank) const {
  if (rank < 0 || static_cast<std::size_t>(rank) >= last_stderr_.size()) return {};
  return last_stderr_[static_cast<std::size_t>(rank)].lines();
}

bool Output::Impl::stderr_in_sight(int rank) const {
  if (rank < 0 || static_cast<std::size_t>(rank) >= shown_at_.size()) return false;
  const auto at = shown_at_[static_cast<std::size_t>(rank)];
  return at > 0 && shown() - at <= (sinks_.back()->sink.is_file() ? kInSightInFile : kInSight);
}

Result<std::unique_ptr<Output>> Output::open(event_base* loop, const OutputSpec& spec,
                                             Events events, Descriptors descriptors) {
  HVD_TRY(auto impl, Impl::make(loop, spec, std::move(events), descriptors));
  return std::unique_ptr<Output>(new Output(std::move(impl)));
}

Output::Output(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Output::~Output() = default;

void Output::write(int rank, Stream stream, std::string_view bytes, OutputTime time) {
  impl_->write(rank, stream, bytes, time);
}
void Output::set_raw(bool raw) {
  impl_->set_raw(raw);
}
void Output::close(int rank, Stream stream) {
  impl_->close(rank, stream);
}
void Output::note(std::string_view text) {
  impl_->note(text);
}
bool Output::has_lost_notes() const {
  return impl_->has_lost_notes();
}
bool Output::note_again(const std::vector<std::string>& lines, std::chrono::milliseconds timeout) {
  return impl_->note_again(lines, timeout);
}
Output::ProgressStyle Output::progress_style() const {
  return impl_->progress_style();
}
void Output::status(std::vector<std::string> fields) {
  impl_->status(std::move(fields));
}
void Output::redraw_status() {
  impl_->redraw_status();
}
bool Output::congested() const {
  return impl_->congested();
}
bool Output::idle() const {
  return impl_->idle();
}
std::size_t Output::pending() const {
  return impl_->pending();
}
void Output::flush(std::chrono::milliseconds timeout) {
  impl_->flush(timeout);
}
std::vector<std::string> Output::losses() const {
  return impl_->losses();
}
Result<void> Output::begin(const Placement& placement) {
  return impl_->begin(placement);
}

void Output::add(const std::string& host, const RankPlacement& rank) {
  impl_->add(host, rank);
}
std::vector<std::string> Output::last_stderr(int rank) const {
  return impl_->last_stderr(rank);
}
bool Output::stderr_in_sight(int rank) const {
  return impl_->stderr_in_sight(rank);
}
void Output::failed(int rank) {
  impl_->failed(rank);
}
void Output::settle(std::optional<int> first_failure) {
  impl_->settle(first_failure);
}
const RecentOutput& Output::recent() const {
  return impl_->recent();
}

}  // namespace hvdrun
