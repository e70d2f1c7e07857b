#include "simulated_hosts/pmix_job_on_hosts.hpp"

#include "agent/pmix_server.hpp"
#include "base/event_loop.hpp"
#include "base/system.hpp"
#include "protocol/messages.hpp"
#include "simulated_hosts/simulated_hosts.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

std::filesystem::path output_file(const JobOnHosts& job, int rank) {
  return job.folder / ("rank-" + std::to_string(rank));
}

PmixJob pmix_job(const JobOnHosts& job, std::size_t own_host) {
  PmixJob result;
  result.host_index = static_cast<int>(own_host);
  for (const int count : job.ranks_per_host) {
    auto& host = result.hosts.emplace_back();
    host.name = "host" + std::to_string(result.hosts.size() - 1);
    for (int i = 0; i < count; ++i) host.ranks.push_back(result.size++);
  }
  return result;
}

void throw_on_error(const Result<void>& result) {
  if (!result) throw std::runtime_error(result.error().message);
}

// Runs in the process of one host: starts the PMIx server and the host's ranks.
class SimulatedHost {
 public:
  SimulatedHost(const JobOnHosts& job, std::string nspace, std::size_t index, LinkEnd link)
      : job_(job),
        nspace_(std::move(nspace)),
        index_(index),
        link_(loop_, std::move(link),
              {[this](const Frame& frame) { on_frame(frame); },
               [this](const std::optional<Error>&) { loop_.stop(); }}),
        children_(loop_, {SIGCHLD}, [this](int) { reap(); }) {}

  int run() {
    const auto folder = job_.folder / ("host-" + std::to_string(index_));
    std::filesystem::create_directories(folder);
    auto job = pmix_job(job_, index_);
    job.nspace = nspace_;
    auto server = PmixServer::start(
        loop_, folder, job.hosts[job.host_index].name, job.local_ranks().size(),
        {[](int, int, const std::string&) {},
         [this](FrameType type, std::uint32_t destination, std::string_view payload) {
           link_.send(type, destination, payload);
         },
         [this](const Error& error) { fail_job(error); }});
    if (!server) throw std::runtime_error(server.error().message);
    server_ = std::move(*server);
    throw_on_error(server_->register_job(job));
    for (const int rank : job.local_ranks()) start(rank);
    loop_.run();
    return 0;
  }

 private:
  void start(int rank) {
    auto variables = server_->environment_of(rank);
    if (!variables) throw std::runtime_error(variables.error().message);
    variables->push_back("PATH=/usr/bin:/bin");
    variables->push_back("HOME=" + job_.folder.string());
    variables->push_back("OMPI_MCA_btl_tcp_if_include=lo");  // all hosts are this machine
    for (const char* name : {"ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"})
      if (const char* value = std::getenv(name))
        variables->push_back(std::string(name) + "=" + value);
    variables->push_back("OMPI_MCA_btl_vader_backing_directory=" +
                         (job_.folder / ("host-" + std::to_string(index_))).string());
    const auto pointers = [](const std::vector<std::string>& strings) {
      std::vector<char*> list;
      for (const auto& string : strings) list.push_back(const_cast<char*>(string.c_str()));
      list.push_back(nullptr);
      return list;
    };
    const auto environment = pointers(*variables);
    const auto arguments = pointers(job_.arguments);
    const auto file = output_file(job_, rank).string();
    sigset_t none;
    sigemptyset(&none);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::sigprocmask(SIG_SETMASK, &none, nullptr);
      const int out = ::open(file.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
      ::dup2(out, 1);
      ::dup2(out, 2);
      ::execve(arguments[0], arguments.data(), environment.data());
      ::_exit(127);
    }
    ranks_[pid] = rank;
  }

  void reap() {
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      ExitedMessage message;
      message.rank = ranks_[pid];
      message.wait_status = status;
      server_->drain();
      server_->rank_ended(message.rank);
      link_.send(FrameType::exited, kToLauncher, pack(message));
    }
  }

  void on_frame(const Frame& frame) {
    if (frame.type == FrameType::stop) return loop_.stop();
    if (auto taken = server_->on_frame(frame); !taken) fail_job(taken.error());
  }

  void fail_job(const Error& error) {
    link_.send(FrameType::failed, kToLauncher, pack(FailedMessage{error.message, error.exit_code}));
  }

  const JobOnHosts& job_;
  std::string nspace_;
  std::size_t index_;
  EventLoop loop_;
  Link link_;
  SignalWatch children_;
  std::unique_ptr<PmixServer> server_;
  std::map<pid_t, int> ranks_;
};

std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

Result<JobEnd> run_on_hosts(const JobOnHosts& job) {
  const auto all = pmix_job(job, 0);
  const auto nspace = "hvd-test-" + random_hex(16);
  const auto mask = block_signals({SIGCHLD});  // the hosts' processes inherit the mask
  JobEnd end;
  end.ranks.resize(static_cast<std::size_t>(all.size));
  std::set<int> running;
  for (int rank = 0; rank < all.size; ++rank) running.insert(rank);
  std::set<std::size_t> killed;
  std::optional<Error> failure;
  SimulatedHosts* self = nullptr;

  const auto ended = [&](int rank) {
    running.erase(rank);
    if (running.empty()) self->send_all(FrameType::stop);
  };
  const auto kill_host = [&](std::size_t host) {
    killed.insert(host);
    self->kill(host);
  };
  SimulatedHosts hosts(job.ranks_per_host.size(),
                       [&](std::size_t host, LinkEnd link) {
                         // Never destroyed: libpmix's thread may still call it while the process
                         // ends.
                         return (new SimulatedHost(job, nspace, host, std::move(link)))->run();
                       },
                       {[&](std::size_t, const Frame& frame) {
                          if (frame.type == FrameType::failed) {
                            failure = Error{parse<FailedMessage>(frame.payload)->text};
                            return self->stop();
                          }
                          const auto exited = *parse<ExitedMessage>(frame.payload);
                          end.ranks[static_cast<std::size_t>(exited.rank)].wait_status =
                              exited.wait_status;
                          ended(exited.rank);
                        },
                        [&](std::size_t host, const Frame& frame) {
                          ++end.exchanged;
                          if (job.on_exchange) job.on_exchange(host, frame, kill_host);
                        },
                        [&](std::size_t host) {
                          if (killed.contains(host))
                            for (const int rank : all.hosts[host].ranks) ended(rank);
                          else if (!running.empty())
                            self->stop();
                        }});
  self = &hosts;
  hosts.run();
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);

  if (!failure) failure = hosts.error();
  if (failure) return *failure;
  if (!running.empty()) return fail("an agent ended before its ranks");
  for (std::size_t host = 0; host < job.ranks_per_host.size(); ++host)
    if (!killed.contains(host) && hosts.status_of(host) != 0)
      return fail("the agent of host " + std::to_string(host) + " ended with wait status " +
                  std::to_string(hosts.status_of(host)));
  for (std::size_t rank = 0; rank < end.ranks.size(); ++rank)
    end.ranks[rank].output = read_file(output_file(job, static_cast<int>(rank)));
  return end;
}

}  // namespace hvdrun
