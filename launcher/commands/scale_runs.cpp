#include "commands/scale_runs.hpp"

#include "base/event_loop.hpp"
#include "base/severity.hpp"
#include "commands/scale_devices.hpp"
#include "common/fd.hpp"
#include "common/file_content.hpp"

#include <array>
#include <cerrno>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr const char* kSelf = "/proc/self/exe";
// How often the output of a run is shown.
constexpr timespec kShowInterval{0, 50'000'000};

// Writes to stderr what is appended to a file.
class OutputEcho {
 public:
  explicit OutputEcho(const std::filesystem::path& file)
      : file_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {}

  void show() {
    std::array<char, 4096> bytes;  // NOLINT: filled by read
    for (;;) {
      const ssize_t got = ::read(file_.get(), bytes.data(), bytes.size());
      if (got <= 0) return;
      for (ssize_t done = 0; done < got;) {
        const ssize_t put =
            ::write(STDERR_FILENO, bytes.data() + done, static_cast<std::size_t>(got - done));
        if (put < 0 && errno != EINTR) return;
        if (put > 0) done += put;
      }
    }
  }

 private:
  Fd file_;
};

// Returns the word with the run's size in place of each {np}.
std::string with_size(std::string word, int size) {
  constexpr std::string_view kPlace = "{np}";
  const auto text = std::to_string(size);
  for (auto at = word.find(kPlace); at != std::string::npos; at = word.find(kPlace, at))
    word.replace(at, kPlace.size(), text);
  return word;
}

int exit_code_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? kExitSignalBase + WTERMSIG(wait_status)
                                  : WEXITSTATUS(wait_status);
}

}  // namespace

ScaleRuns::ScaleRuns(scale::Unit unit, std::vector<std::string> options,
                     std::vector<std::string> command, bool shows_output)
    : unit_(unit),
      options_(std::move(options)),
      command_(std::move(command)),
      shows_output_(shows_output) {
  std::error_code ignored;
  executable_ = std::filesystem::read_symlink(kSelf, ignored).string();
  if (executable_.empty()) executable_ = "hvdrun";
  sigemptyset(&watched_);
  for (const int signal : not_ignored({SIGINT, SIGTERM, SIGHUP})) sigaddset(&watched_, signal);
  sigaddset(&watched_, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &watched_, &mask_before_);
}

ScaleRuns::~ScaleRuns() {
  ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

std::vector<std::string> ScaleRuns::words_for(std::vector<std::string> begin, int size,
                                              const std::vector<std::string>& more) const {
  auto words = std::move(begin);
  for (const auto& word : options_) words.push_back(with_size(word, size));
  words.insert(words.end(), more.begin(), more.end());
  words.emplace_back("--");
  for (const auto& word : command_) words.push_back(with_size(word, size));
  return words;
}

// Returns the options that give a run its size.
std::vector<std::string> ScaleRuns::size_words(int size, bool submits) const {
  if (unit_ == scale::Unit::ranks) return {"-np", std::to_string(size)};
  std::vector<std::string> words{"-np", "1", "--ranks-per-host", "1"};
  if (submits)
    words.insert(words.end(), {"--gpus-per-node", std::to_string(size)});
  else
    words.insert(words.end(), {"-x", "CUDA_VISIBLE_DEVICES=" + visible_.at(size)});
  return words;
}

Result<int> ScaleRuns::check(int size, const std::filesystem::path& output) {
  std::vector<std::string> more{"-np", std::to_string(size), "--dry-run"};
  if (unit_ == scale::Unit::devices) more.emplace_back("--json");
  HVD_TRY(const int code, run_child(words_for({executable_}, size, more), output, false));
  if (unit_ == scale::Unit::devices && code == kExitOk) {
    HVD_TRY(visible_[size], scale::visible_devices(content_of(output)));
  }
  return code;
}

Result<int> ScaleRuns::run(int size, const RunFiles& files) {
  auto more = size_words(size, false);
  more.insert(more.end(), {"--report", files.report.string()});
  return run_child(words_for({executable_}, size, more), files.output, shows_output_);
}

Result<std::string> ScaleRuns::submit(int size, const RunFiles& files) {
  auto more = size_words(size, true);
  more.insert(more.end(),
              {"--submit", "--output", files.output.string(), "--report", files.report.string()});
  HVD_TRY(const int code,
          run_child(words_for({executable_, "sbatch"}, size, more), files.slurm_log, false));
  std::istringstream stream(content_of(files.slurm_log));
  std::string line;
  std::string last;
  for (; std::getline(stream, line); last = line) {
    constexpr std::string_view kSubmitted = "hvdrun: note: submitted job ";
    if (line.starts_with(kSubmitted))
      return line.substr(kSubmitted.size(), line.find(';') - kSubmitted.size());
  }
  constexpr std::string_view kOwn = "hvdrun: ";
  const std::string_view text = last;
  return fail(
      std::string(text.starts_with(kOwn) ? without_severity(text.substr(kOwn.size())) : text),
      code == kExitOk ? kExitLauncher : code);
}

Result<int> ScaleRuns::follow(const std::string& job, const RunFiles& files) {
  return run_child({executable_, "follow", "--no-output", job}, files.slurm_log, false);
}

void ScaleRuns::cancel(const std::vector<std::string>& jobs, const std::filesystem::path& output) {
  if (jobs.empty()) return;
  std::vector<std::string> words{executable_, "cancel"};
  words.insert(words.end(), jobs.begin(), jobs.end());
  static_cast<void>(run_child(std::move(words), output, false));
}

Result<int> ScaleRuns::run_child(std::vector<std::string> words,
                                 const std::filesystem::path& output, bool shows_output) {
  const Fd file(::open(output.c_str(),
                       O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file) return fail_errno("cannot write " + output.string(), errno);
  HVD_TRY(const pid_t child, start(words, file.get()));
  std::optional<OutputEcho> tail;
  if (shows_output) tail.emplace(output);
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (tail) tail->show();
    if (ended == child) return exit_code_of(status);
    if (ended < 0 && errno != EINTR) return fail_errno("cannot wait for a run", errno);
    siginfo_t signal{};
    const int got = tail ? ::sigtimedwait(&watched_, &signal, &kShowInterval)
                         : ::sigwaitinfo(&watched_, &signal);
    if (got > 0) take_signal(signal, child);
  }
}

Result<pid_t> ScaleRuns::start(std::vector<std::string>& words, int output) const {
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return fail_errno("cannot start a run", errno);
  if (child > 0) return child;
  // If we are killed, the run stops its ranks and ends.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kExitLauncher);
  const int input = ::open("/dev/null", O_RDONLY);
  if (input >= 0) ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
  ::execv(kSelf, arguments.data());
  ::_exit(kExitLauncher);
}

// Remembers a signal that stops the study, and passes it on to the run. A terminal sends its signal
// to the whole foreground group, so that one is not passed on: a second signal would end the run at
// once.
void ScaleRuns::take_signal(const siginfo_t& signal, pid_t child) {
  if (signal.si_signo == SIGCHLD) return;
  stop_signal_ = signal.si_signo;
  if (signal.si_code != SI_KERNEL) ::kill(child, signal.si_signo);
}

std::optional<int> ScaleRuns::stop_signal() {
  constexpr timespec kNow{};
  siginfo_t signal{};
  while (!stop_signal_ && ::sigtimedwait(&watched_, &signal, &kNow) > 0)
    if (signal.si_signo != SIGCHLD) stop_signal_ = signal.si_signo;
  return stop_signal_;
}

}  // namespace hvdrun
