// Starts agents on hosts of a SLURM allocation and prints what happens. For tests of SrunAgents.
//
//   srun_agents AGENT_PATH [--interface NAMES] [--timeout SECONDS] [--rank COMMAND] [--keep-srun]
//   HOST…
//
// HOST is a name, or NAME:GPUS. Prints a line for each event: "job ID", "listens ADDRESS PORT",
// "hello HOST NAME", "output HOST TEXT", "exited HOST STATUS", "failed HOST MESSAGE", "done HOST",
// "closed HOST", "text HOST TEXT", "trouble HOSTS: MESSAGE", "lost HOST REASON", "refused NOTE",
// and "cleaned up" if agents have not sent "done". "stop" on stdin or SIGTERM ends ranks, with 5 s
// of grace, and agents; end of file closes all links. When all links are closed it prints "reaped
// yes", or "reaped no" if SLURM had to kill processes, and returns. Without --keep-srun, srun ends
// once all agents have connected.
#include "channels/srun_agents.hpp"

#include "agent/descriptor_limit.hpp"
#include "base/event_loop.hpp"
#include "base/system.hpp"
#include "base/version.hpp"
#include "protocol/link.hpp"
#include "protocol/messages.hpp"

#include <array>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

extern char** environ;  // NOLINT: environ(7)

namespace {

using namespace hvdrun;

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

class Driver {
 public:
  Driver(SrunJob job, std::string rank_command, bool keep_srun)
      : job_(std::move(job)),
        rank_command_(std::move(rank_command)),
        keep_srun_(keep_srun),
        links_(job_.hosts.size()),
        done_(job_.hosts.size()),
        input_(loop_, STDIN_FILENO, FdEvent::readable, [this] { on_input(); }),
        signals_(loop_, {SIGTERM}, [this](int) {
          say("got TERM");
          stop();
        }) {}

  int run() {
    auto started =
        SrunAgents::start(loop_, job_,
                          {[this](std::size_t host, LinkEnd end) { on_link(host, std::move(end)); },
                           [this](const auto& troubles) { on_failure(troubles); },
                           [this](std::size_t host, const std::string& text) {
                             say("text " + name_of(host) + " " + text);
                           },
                           [](const std::vector<LinkAddress>& addresses) {
                             for (const auto& [address, port] : addresses)
                               say(fmt::format("listens {} {}", address, port));
                           }});
    if (!started) {
      say("error " + started.error().message);
      return 1;
    }
    agents_ = std::move(*started);
    input_.enable();
    loop_.run();
    for (std::size_t host = 0; host < links_.size(); ++host)
      if (const auto why = agents_->why_lost(host); !why.empty())
        say("lost " + name_of(host) + " " + why);
    const bool reaped = agents_->reap(std::chrono::seconds(30));
    std::vector<std::size_t> lost;
    for (std::size_t host = 0; host < links_.size(); ++host)
      if (!done_[host]) lost.push_back(host);
    if (!lost.empty())
      say(agents_->clean_up(lost, std::chrono::seconds(30)) ? "cleaned up" : "not cleaned up");
    if (const auto note = agents_->refused_note(); !note.empty()) say("refused " + note);
    say(reaped ? "reaped yes" : "reaped no");
    return 0;
  }

 private:
  const std::string& name_of(std::size_t host) const { return job_.hosts[host].name; }

  void on_link(std::size_t host, LinkEnd end) {
    links_[host] = std::make_unique<Link>(
        loop_, std::move(end),
        Link::Events{[this, host](const Frame& frame) { on_frame(host, frame); },
                     [this, host](const std::optional<Error>&) { on_close(host); }});
    ConfigureMessage message;
    message.version = kVersion;
    message.job_id = job_.job_id;
    message.agent = job_.hosts[host].agent;
    message.pmix = PmixMode::off;
    send(host, FrameType::configure, pack(message));
  }

  void send(std::size_t host, FrameType type, const std::string& payload) {
    if (links_[host]) links_[host]->send(type, static_cast<std::uint32_t>(host), payload);
  }

  void on_frame(std::size_t host, const Frame& frame) {
    switch (frame.type) {
      case FrameType::hello:
        say(fmt::format("hello {} {}", name_of(host), parse<HelloMessage>(frame.payload)->host));
        if (!rank_command_.empty()) launch(host);
        if (++greeted_ == links_.size() && !keep_srun_) agents_->let_go();
        break;
      case FrameType::output: {
        const auto output = parse_output(frame.payload);
        say("output " + name_of(host) + " " +
            std::string(output->bytes.substr(0, output->bytes.find('\n'))));
        break;
      }
      case FrameType::exited:
        say(fmt::format("exited {} {}", name_of(host),
                        parse<ExitedMessage>(frame.payload)->wait_status));
        break;
      case FrameType::failed:
        say("failed " + name_of(host) + " " + parse<FailedMessage>(frame.payload)->text);
        break;
      case FrameType::done:
        say("done " + name_of(host));
        done_[host] = true;
        break;
      default:
        break;
    }
  }

  void launch(std::size_t host) {
    LaunchMessage job;
    job.size = static_cast<int>(links_.size());
    job.host_index = static_cast<int>(host);
    for (std::size_t i = 0; i < links_.size(); ++i)
      job.hosts.push_back({name_of(i), {static_cast<int>(i)}});
    job.program = "/bin/sh";
    job.arguments = {"sh", "-c", rank_command_};
    job.working_directory = "/";
    job.environment = {"PATH=/usr/bin:/bin", "HVD_JOB_ID=" + job_.job_id};
    job.kill_signal = SIGTERM;
    job.grace = std::chrono::seconds(2);
    job.ranks.resize(1);
    job.ranks[0].rank = static_cast<int>(host);
    send(host, FrameType::output_credit, pack_number(1 << 20));
    send(host, FrameType::launch, pack(job));
  }

  void on_close(std::size_t host) {
    say("closed " + name_of(host));
    if (++closed_ == links_.size()) leave();
  }

  void on_failure(const std::vector<SrunFailure>& troubles) {
    for (const auto& trouble : troubles)
      say(fmt::format("trouble {}: {}", fmt::join(trouble.hosts, ","), trouble.message));
  }

  void on_input() {
    std::array<char, 256> buffer{};
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    const std::string_view text(buffer.data(), static_cast<std::size_t>(got > 0 ? got : 0));
    if (got <= 0) return leave();
    if (text == "stop\n") stop();
  }

  void stop() {
    StopMessage message;
    message.signal = SIGTERM;
    message.grace = std::chrono::seconds(5);
    for (std::size_t host = 0; host < links_.size(); ++host)
      send(host, FrameType::stop, pack(message));
  }

  void leave() {
    input_.disable();
    for (auto& link : links_) link.reset();
    // The agents see the ends of their links.
    agents_->hang_up();
    loop_.stop();
  }

  EventLoop loop_;
  SrunJob job_;
  std::string rank_command_;
  const bool keep_srun_;
  std::vector<std::unique_ptr<Link>> links_;
  std::unique_ptr<SrunAgents> agents_;
  std::vector<bool> done_;  // by host
  std::size_t greeted_ = 0;
  std::size_t closed_ = 0;
  FdEvent input_;
  SignalWatch signals_;
};

SrunHost host_of(const std::string& word) {
  const auto colon = word.find(':');
  if (colon == std::string::npos) return {word, 0, {}};
  return {word.substr(0, colon), 0, std::stoi(word.substr(colon + 1))};
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  block_signals({SIGTERM});
  std::vector<std::string> words(argv + 1, argv + argc);
  SrunJob job;
  job.environment = environment_from(environ);
  job.job_id = random_hex(16);
  job.timeout = std::chrono::seconds(30);
  std::string rank_command;
  bool keep_srun = false;
  job.srun.agent_path = words.at(0);
  if (const auto* id = find_variable(job.environment, "SLURM_JOB_ID")) job.srun.job_id = *id;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--interface")
      job.interfaces = words.at(++i);
    else if (words[i] == "--timeout")
      job.timeout = std::chrono::seconds(std::stoi(words.at(++i)));
    else if (words[i] == "--rank")
      rank_command = words.at(++i);
    else if (words[i] == "--keep-srun")
      keep_srun = true;
    else
      job.hosts.push_back(host_of(words[i]));
  }
  for (std::size_t host = 0; host < job.hosts.size(); ++host) job.hosts[host].agent = host;
  raise_descriptor_limit(srun_descriptors(job.hosts.size()));
  say("job " + job.job_id);
  return Driver(std::move(job), rank_command, keep_srun).run();
}
