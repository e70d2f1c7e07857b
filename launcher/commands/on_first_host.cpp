#include "commands/on_first_host.hpp"

#include "base/event_loop.hpp"
#include "base/files.hpp"
#include "base/subprocess.hpp"
#include "base/system.hpp"
#include "common/text.hpp"
#include "common/write_all.hpp"
#include "output/own_line.hpp"
#include "slurm/slurm_command.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// What the shell on the host runs: the hvdrun that the user has typed, or the one in PATH there.
constexpr const char* kFindHvdrun =
    R"(hvdrun=$1; shift; [ -x "$hvdrun" ] || hvdrun=$(command -v hvdrun) || exit 127; exec "$hvdrun" "$@")";
constexpr int kNotThere = 127;  // a shell's exit code

// srun, with its output.
class Step {
 public:
  explicit Step(const HostCommand& command) : command_(command) {}
  ~Step() {
    if (pid_ != 0) ::kill(pid_, SIGKILL);
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  Result<int> run(const Environment& environment);

 private:
  struct Source {
    Fd fd;
    FdEvent event;
  };
  void read(Source& source, int to);
  void take_lines(std::string_view bytes);
  void on_signal(int signal);

  const HostCommand& command_;
  EventLoop loop_;
  pid_t pid_ = 0;
  Source out_;
  Source err_;
  std::string line_;         // of stderr, that has not ended
  bool has_spoken_ = false;  // hvdrun there, on stderr
  std::string complaint_;    // srun's
  int signal_ = 0;           // that ended us
};

// Returns what is wrong, from a line of srun's; "": nothing, or only that hvdrun there has failed.
std::string_view complaint_in(std::string_view line) {
  for (const std::string_view word : {"error: ", "fatal: "}) {
    const auto at = line.find(word);
    if (at != std::string_view::npos && line.find(": task ") == std::string_view::npos)
      return line.substr(at + word.size());
  }
  return {};
}

void Step::take_lines(std::string_view bytes) {
  line_ += bytes;
  std::size_t end = 0;
  while ((end = line_.find('\n')) != std::string::npos) {
    const auto line = line_.substr(0, end + 1);
    line_.erase(0, end + 1);
    if (!line.starts_with("srun: ") && !line.starts_with("slurmstepd: ")) {
      common::write_all(STDERR_FILENO, line);
      has_spoken_ = true;
      continue;
    }
    const auto words = complaint_in(std::string_view(line).substr(0, end));
    if (!words.empty()) complaint_ += (complaint_.empty() ? "" : "; ") + escape(words);
  }
}

void Step::read(Source& source, int to) {
  std::array<char, 64 << 10> buffer;  // NOLINT: filled by read
  const auto count = ::read(source.fd.get(), buffer.data(), buffer.size());
  if (count < 0 && errno == EINTR) return;
  const std::string_view bytes(buffer.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  // A reader that has gone, such as head(1), ends the step.
  bool is_open = count > 0;
  if (is_open && to == STDOUT_FILENO) is_open = common::write_all(to, bytes);
  if (is_open && to == STDERR_FILENO) take_lines(bytes);
  if (is_open) return;
  source.event.reset();
  source.fd.reset();
  if (count > 0) return on_signal(SIGPIPE);
  if (!out_.fd && !err_.fd) loop_.stop();
}

void Step::on_signal(int signal) {
  signal_ = signal;
  loop_.stop();
}

Result<int> Step::run(const Environment& environment) {
  const std::vector<int> ending{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  block_signals(not_ignored(ending));
  std::signal(SIGPIPE, SIG_IGN);
  const SignalWatch signals(loop_, not_ignored(ending), [this](int signal) { on_signal(signal); });
  HVD_TRY(Pipe out, make_pipe());
  HVD_TRY(Pipe err, make_pipe());
  auto words = first_host_command(command_, own_executable().string());
  auto started =
      spawn(words, {-1, out.write.get(), err.write.get()}, srun_environment(environment));
  if (!started) return explain_start_failure("srun", std::move(started).error());
  pid_ = *started;
  out.write.reset();
  err.write.reset();
  const auto watch = [this](Source& source, Fd fd, int to) {
    source.fd = std::move(fd);
    source.event = FdEvent(loop_, source.fd.get(), FdEvent::readable,
                           [this, &source, to] { read(source, to); });
    source.event.enable();
  };
  watch(out_, std::move(out.read), STDOUT_FILENO);
  watch(err_, std::move(err.read), STDERR_FILENO);
  loop_.run();
  // srun ends the step by itself at SIGTERM.
  if (signal_ != 0) {
    ::kill(pid_, SIGTERM);
    if (!wait_for_child(pid_, std::chrono::seconds(2))) return kExitSignalBase + signal_;
    pid_ = 0;
    return kExitSignalBase + signal_;
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : kExitSignalBase + WTERMSIG(status);
  // SLURM ends all steps of a job that ends.
  if (code == kExitSignalBase + SIGTERM || code == kExitSignalBase + SIGKILL) {
    print_own_line("the job has ended");
    return kExitOk;
  }
  if (code == kNotThere)
    return fail(
        fmt::format("{} has no hvdrun in its PATH, and not the one that runs here", command_.host));
  if (code != kExitOk && !has_spoken_ && !complaint_.empty())
    return fail(fmt::format("cannot look into job {} on {}: srun: {}", command_.job, command_.host,
                            complaint_));
  return code;
}

}  // namespace

std::vector<std::string> first_host_command(const HostCommand& command, const std::string& hvdrun) {
  std::vector<std::string> words{
      "srun",
      "--jobid=" + command.number,
      "--job-name=hvdrun",  // of the step, for squeue -s
      "--nodelist=" + command.host,
      "--nodes=1",
      "--ntasks=1",
      "--overlap",  // beside the job's own steps
      "--mem=0",
      "--gres=none",
      "--mpi=none",
      "--immediate=20",  // seconds; it does not wait for ever for the job's resources
      "--chdir=/",
      "--export=ALL",
      "--quiet"};
  words.emplace_back(command.draws ? "--pty" : "--input=none");
  words.insert(words.end(), {"sh", "-c", kFindHvdrun, "sh", hvdrun});
  words.insert(words.end(), command.words.begin(), command.words.end());
  return words;
}

Result<int> run_on_first_host(const HostCommand& command, const Environment& environment) {
  if (!command.draws) {
    print_own_line(fmt::format("job {} runs on {}: looking there", command.job, command.host));
    return Step(command).run(environment);
  }
  auto words = first_host_command(command, own_executable().string());
  auto block = srun_environment(environment);
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> array;
    for (auto& text : texts) array.push_back(text.data());
    array.push_back(nullptr);
    return array;
  };
  ::execvpe(words.front().c_str(), pointers(words).data(), pointers(block).data());
  const int error = errno;
  return explain_start_failure("srun", fail_errno("cannot start srun", error,
                                                  error == ENOENT ? kExitNotFound : kExitLauncher));
}

}  // namespace hvdrun
