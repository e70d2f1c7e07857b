#include "base/program_run.hpp"

#include "base/spawn.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// A program whose streams are closed has all but ended; how often to look whether it has.
constexpr std::chrono::milliseconds kEndCheck{5};

// 10,000 jobs of squeue are 5 MB.
constexpr std::size_t kMostOutput = 256u << 20;

int code_of(int status) {
  return WIFSIGNALED(status) ? kExitSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

ProgramRun::ProgramRun(const EventLoop& loop, std::string input,
                       std::function<void(ProgramEnd)> done)
    : input_(std::move(input)),
      done_(std::move(done)),
      patience_(loop,
                [this] {
                  end_.timed_out = true;
                  ::kill(pid_, SIGKILL);
                  // Somebody else may hold its streams open; they are of no use any more.
                  for (Source* source : {&in_, &out_, &err_}) source->close();
                  look_for_end();
                }),
      end_check_(loop, [this] { look_for_end(); }) {}

ProgramRun::~ProgramRun() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<std::unique_ptr<ProgramRun>> ProgramRun::start(const EventLoop& loop, ProgramRequest request,
                                                      std::function<void(ProgramEnd)> done) {
  std::unique_ptr<ProgramRun> run(new ProgramRun(loop, std::move(request.input), std::move(done)));
  HVD_TRY(Pipe in, make_pipe());
  HVD_TRY(Pipe out, make_pipe());
  HVD_TRY(Pipe err, make_pipe());
  HVD_TRY(run->pid_, spawn(request.command, {in.read.get(), out.write.get(), err.write.get()},
                           request.environment));
  HVD_CHECK(run->watch(loop, std::move(in), std::move(out), std::move(err)));
  run->patience_.start(request.patience);
  return run;
}

Result<void> ProgramRun::watch(const EventLoop& loop, Pipe in, Pipe out, Pipe err) {
  in_.fd = std::move(in.write);
  out_.fd = std::move(out.read);
  err_.fd = std::move(err.read);
  for (const Source* source : {&in_, &out_, &err_}) HVD_CHECK(set_nonblocking(source->fd.get()));
  in_.event = FdEvent(loop, in_.fd.get(), FdEvent::writable, [this] { write_input(); });
  out_.event =
      FdEvent(loop, out_.fd.get(), FdEvent::readable, [this] { read_from(out_, end_.out); });
  err_.event =
      FdEvent(loop, err_.fd.get(), FdEvent::readable, [this] { read_from(err_, end_.err); });
  for (Source* source : {&in_, &out_, &err_}) source->event.enable();
  return {};
}

// The event first: the loop must not know a descriptor whose number others may get. reset() alone
// would keep it as long as its callback runs, which is what calls us.
void ProgramRun::Source::close() {
  if (event) event.disable();
  event.reset();
  fd.reset();
}

void ProgramRun::write_input() {
  const ssize_t count = input_.size() == written_ ? 0
                                                  : ::write(in_.fd.get(), input_.data() + written_,
                                                            input_.size() - written_);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count > 0) written_ += static_cast<std::size_t>(count);
  if (count > 0 && written_ < input_.size()) return;
  in_.close();  // all is written, or the program reads no more
}

void ProgramRun::read_from(Source& source, std::string& text) {
  std::array<char, 65536> bytes;  // NOLINT: filled by read
  const ssize_t count = ::read(source.fd.get(), bytes.data(), bytes.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count > 0) {
    if (text.size() < kMostOutput) text.append(bytes.data(), static_cast<std::size_t>(count));
    return;
  }
  source.close();
  if (!out_.fd && !err_.fd) look_for_end();
}

void ProgramRun::look_for_end() {
  int status = 0;
  const pid_t reaped = ::waitpid(pid_, &status, WNOHANG);
  if (reaped == 0 || (reaped < 0 && errno == EINTR)) {
    end_check_.start(kEndCheck);
    return;
  }
  pid_ = 0;
  patience_.cancel();
  end_.code = code_of(status);
  const auto done = std::move(done_);
  done(std::move(end_));
}

Result<ProgramEnd> run_program(ProgramRequest request) {
  EventLoop loop;
  ProgramEnd end;
  HVD_TRY(const auto run, ProgramRun::start(loop, std::move(request), [&](ProgramEnd all) {
            end = std::move(all);
            loop.stop();
          }));
  loop.run();
  return end;
}

}  // namespace hvdrun
