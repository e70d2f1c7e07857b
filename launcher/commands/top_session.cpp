#include "commands/top_session.hpp"

#include "base/event_loop.hpp"
#include "base/files.hpp"
#include "base/subprocess.hpp"
#include "base/terminal.hpp"
#include "commands/log_lines.hpp"
#include "common/text.hpp"
#include "control/job_now_json.hpp"
#include "output/user_terminal.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookInterval{1000};
constexpr milliseconds kLookTimeout{5000};
constexpr std::size_t kKeptLines = 200;  // of a rank

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kLeave = "\x1b[0m\x1b[?25h\x1b[?1049l";

constexpr char kCtrlC = 3;
constexpr char kCtrlZ = 26;
constexpr char kEscape = 27;

void write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string_view style_code(ScreenLine::Style style) {
  switch (style) {
    case ScreenLine::Style::title:
      return "\x1b[7m";
    case ScreenLine::Style::selected:
      return "\x1b[1;4m";
    case ScreenLine::Style::warning:
      return "\x1b[1m";
    case ScreenLine::Style::plain:
      break;
  }
  return {};
}

class Session {
 public:
  Session(ControlClient client, const TopView& view) : client_(std::move(client)), view_(view) {}

  Result<int> run();

 private:
  bool enter();
  void leave();
  void suspend();
  void resume();
  void ask();
  void on_answer();
  void take_logs(const ControlJson& answer);
  void on_keys();
  void on_key(std::string_view key);
  void on_signal(int signal);
  void choose(int step);
  void show_why();
  void draw();
  std::vector<ScreenLine> lines_of_rank(std::size_t rows, std::size_t columns) const;
  void end(Result<int> code);

  ControlClient client_;
  TopView view_;
  EventLoop loop_;
  std::unique_ptr<UserTerminal> terminal_;
  TopRates rates_;
  bool has_looked_ = false;
  bool shows_lines_ = false;
  LogLines log_lines_;
  std::map<int, std::deque<std::string>> lines_;  // of each rank, the last ones
  std::uint64_t last_chunk_ = 0;
  std::string asked_;  // the word that is to be answered; "": none
  std::string message_;
  std::string ended_;  // what is printed at the end, below what was there before
  std::optional<Result<int>> code_;
  Timer next_{loop_, [this] { ask(); }};
  Timer late_{loop_, [this] {
                message_ = client_.silence().message;
                draw();
              }};
};

bool Session::enter() {
  if (!terminal_->make_raw()) return false;
  terminal_->set_undo(kLeave);
  write_all(kEnter);
  return true;
}

void Session::leave() {
  write_all(kLeave);
  terminal_->set_undo({});
  terminal_->restore();
}

// Stops all that the shell has started with it, as Ctrl-Z does in the terminal's usual mode. Where
// no shell could continue it (ssh -t HOST hvdrun top), the kernel ignores the signal.
void Session::suspend() {
  leave();
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
  ::kill(0, SIGTSTP);
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  resume();
}

// In the background it may not use the terminal: it stops again, as if it had read from it.
void Session::resume() {
  while (!enter()) ::kill(::getpid(), SIGSTOP);
  draw();
}

void Session::end(Result<int> code) {
  if (!code_) code_ = std::move(code);
  loop_.stop();
}

// --- the job -------------------------------------------------------------------------------------

// Asks for the state each second; while the lines of a rank are shown, also for what is new.
void Session::ask() {
  next_.start(kLookInterval);
  if (!asked_.empty()) return;
  asked_ = "state";
  late_.start(kLookTimeout);
  if (auto sent = client_.send(asked_, ControlJson::object()); !sent && !client_.has_ended())
    end(std::move(sent).error());
}

void Session::on_answer() {
  auto answer = client_.poll();
  if (!answer) return;
  late_.cancel();
  message_.clear();
  const auto word = std::exchange(asked_, {});
  if (!*answer && client_.has_ended()) {
    ended_ = "the job has ended";
    return end(kExitOk);
  }
  if (!*answer) return end(std::move(*answer).error());
  if (word == "logs") {
    take_logs(**answer);
    return draw();
  }
  rates_.add(job_now_from(**answer));
  has_looked_ = true;
  draw();
  if (!shows_lines_) return;
  asked_ = "logs";
  late_.start(kLookTimeout);
  [[maybe_unused]] const auto sent = client_.send(asked_, {{"after", last_chunk_}});
}

void Session::take_logs(const ControlJson& answer) {
  for (const auto& chunk : log_chunks_from(answer)) {
    last_chunk_ = chunk.number;
    for (auto& line : log_lines_.add(chunk)) {
      auto& lines = lines_[line.rank];
      lines.push_back(std::move(line.text));
      if (lines.size() > kKeptLines) lines.pop_front();
    }
  }
}

// --- the user ------------------------------------------------------------------------------------

void Session::on_keys() {
  std::array<char, 256> bytes{};
  const auto count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count <= 0) return end(kExitSignalBase + SIGHUP);
  std::string_view rest(bytes.data(), static_cast<std::size_t>(count));
  while (!rest.empty() && !code_) {
    // An arrow is ESC [ A or ESC O A.
    const bool is_sequence =
        rest.size() > 2 && rest.front() == kEscape && (rest[1] == '[' || rest[1] == 'O');
    const std::size_t length = is_sequence ? 3 : 1;
    on_key(rest.substr(0, length));
    rest.remove_prefix(length);
  }
}

void Session::on_key(std::string_view key) {
  message_.clear();
  if (key.front() == kCtrlC) return end(kExitInterrupt);
  if (key.front() == kCtrlZ) return suspend();
  if (shows_lines_) {
    shows_lines_ = key == "l";  // once more: new lines now
    if (!shows_lines_) return draw();
  }
  if (key == "q") return end(kExitOk);
  if (key == "s") view_.sort = next_sort(view_.sort);
  if (key == "f") view_.folds_hosts = !view_.folds_hosts;
  if (key == "j" || key.ends_with("[B") || key.ends_with("OB")) choose(1);
  if (key == "k" || key.ends_with("[A") || key.ends_with("OA")) choose(-1);
  if (key == "w") return show_why();
  if (key == "l" || key == "\r") {
    shows_lines_ = true;
    ask();
  }
  draw();
}

void Session::choose(int step) {
  if (!has_looked_) return;
  auto order = top_order(rates_, view_);
  std::erase(order, -1);
  if (order.empty()) return;
  const auto at = std::ranges::find(order, view_.selected) - order.begin();
  const auto last = static_cast<std::ptrdiff_t>(order.size()) - 1;
  view_.selected = order[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(at + step, 0, last))];
}

// Shows what `hvdrun why` prints until a key is typed.
void Session::show_why() {
  leave();
  const auto child = spawn({own_executable().string(), "why", std::to_string(client_.pid())}, {},
                           {}, SpawnSession::ours);
  if (child) {
    while (::waitpid(*child, nullptr, 0) < 0 && errno == EINTR) {
    }
  } else {
    write_all("hvdrun: " + child.error().message + "\n");
  }
  write_all("type a key to go back to hvdrun top\n");
  char key = 0;
  const bool is_raw = terminal_->make_raw();
  [[maybe_unused]] const auto got = is_raw ? ::read(STDIN_FILENO, &key, 1) : 0;
  resume();
}

void Session::on_signal(int signal) {
  if (signal == SIGTSTP) return suspend();
  if (signal == SIGCONT) return resume();
  if (signal == SIGWINCH) return draw();
  end(kExitSignalBase + signal);
}

// --- the screen ----------------------------------------------------------------------------------

std::vector<ScreenLine> Session::lines_of_rank(std::size_t rows, std::size_t columns) const {
  std::vector<ScreenLine> lines{
      {fmt::format("last lines of rank {}; a key goes back", view_.selected),
       ScreenLine::Style::title}};
  const auto found = lines_.find(view_.selected);
  if (found == lines_.end()) {
    lines.push_back({last_chunk_ == 0 ? "" : "it has printed nothing, or it is no longer kept"});
    return lines;
  }
  const auto& all = found->second;
  const auto shown = std::min(all.size(), rows > 1 ? rows - 1 : 0);
  for (auto line = all.end() - static_cast<std::ptrdiff_t>(shown); line != all.end(); ++line)
    lines.push_back({escape(*line).substr(0, 4 * columns)});
  return lines;
}

void Session::draw() {
  if (!has_looked_ || code_) return;
  const auto size = window_size(STDOUT_FILENO);
  const auto rows = static_cast<std::size_t>(size.rows > 0 ? size.rows : 24);
  const auto columns = static_cast<std::size_t>(size.columns > 0 ? size.columns : 80);
  const auto lines = shows_lines_ ? lines_of_rank(rows, columns)
                                  : top_screen(rates_, view_, rows, columns, message_);
  std::string text = "\x1b[H\x1b[?7l";  // long lines are cut, not wrapped
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) text += "\r\n";
    text += style_code(lines[i].style);
    text += lines[i].text;
    text += "\x1b[0m\x1b[K";
  }
  write_all(text + "\x1b[J\x1b[?7h");
}

Result<int> Session::run() {
  HVD_TRY(terminal_, UserTerminal::open());
  const std::vector<int> watched{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};
  block_signals(not_ignored(watched));
  const SignalWatch signals(loop_, not_ignored(watched), [this](int signal) { on_signal(signal); });
  if (!enter())
    return fail("hvdrun top cannot use the terminal in the background; --once prints once",
                kExitUsage);
  FdEvent keys(loop_, STDIN_FILENO, FdEvent::readable, [this] { on_keys(); });
  FdEvent answers(loop_, client_.descriptor(), FdEvent::readable, [this] { on_answer(); });
  keys.enable();
  answers.enable();
  ask();
  if (!code_) loop_.run();
  leave();
  if (!ended_.empty() && has_looked_) {
    std::string text;
    for (const auto& line : top_summary(rates_)) text += line.text + "\n";
    write_all(text + ended_ + "\n");
  }
  return std::move(*code_);
}

}  // namespace

Result<int> watch_job(ControlClient client, const TopView& view) {
  return Session(std::move(client), view).run();
}

}  // namespace hvdrun
