// Runs one fence after the other over simulated hosts. Prints the milliseconds of each fence on
// host 0.
//
//   fence_bench messages AGENTS RANKS BYTES COUNT   without libpmix: the agents' fences get data of
//                                                   the size that their ranks would send
//   fence_bench clients AGENTS RANKS PROGRAM        with PMIx servers, and RANKS real PMIx clients
//                                                   (tests/programs/pmix_exchange, which does 30)
#include "agent/pmix_fences.hpp"
#include "simulated_hosts/pmix_job_on_hosts.hpp"
#include "simulated_hosts/simulated_hosts.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace hvdrun {
namespace {

PmixJob job_over(int agents, int ranks) {
  PmixJob job;
  for (int host = 0; host < agents; ++host) {
    job.hosts.push_back({"host" + std::to_string(host), {}});
    for (const int end = ranks * (host + 1) / agents; job.size < end; ++job.size)
      job.hosts.back().ranks.push_back(job.size);
  }
  return job;
}

// Acts as one agent, which joins the next fence as soon as the last one has ended.
class FencingAgent {
 public:
  FencingAgent(const PmixJob& job, std::size_t bytes, int count, LinkEnd link)
      : expected_(static_cast<std::size_t>(job.size) * bytes),
        part_(job.local_ranks().size() * bytes, 'x'),
        left_(count),
        first_(job.host_index == 0),
        link_(loop_, std::move(link),
              {[this](const Frame& frame) {
                 if (!fences_.on_result(frame.payload)) loop_.stop();
               },
               [this](const std::optional<Error>&) { loop_.stop(); }}),
        fences_(loop_, [this](FrameType type, std::uint32_t to, std::string_view payload) {
          link_.send(type, to, payload);
        }) {
    fences_.set_job(job);
  }

  int run() {
    join();
    loop_.run();
    return left_ == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  }

 private:
  void join() {
    begun_ = std::chrono::steady_clock::now();
    fences_.join({{}, 0, part_, std::nullopt, [this](std::int32_t status, std::string_view data) {
                    if (status != 0 || data.size() != expected_) return loop_.stop();
                    print_time();
                    if (--left_ == 0) return loop_.stop();
                    join();
                  }});
  }

  void print_time() const {
    const std::chrono::duration<double, std::milli> time =
        std::chrono::steady_clock::now() - begun_;
    if (!first_) return;
    std::printf("%.4f\n", time.count());
    std::fflush(stdout);
  }

  std::size_t expected_;
  std::string part_;
  int left_;
  bool first_;
  EventLoop loop_;
  Link link_;
  PmixFences fences_;
  std::chrono::steady_clock::time_point begun_;
};

int bench_messages(int agents, int ranks, std::size_t bytes, int count) {
  const auto job = job_over(agents, ranks);
  const auto main = [&](std::size_t host, LinkEnd link) {
    auto own = job;
    own.host_index = static_cast<int>(host);
    return FencingAgent(own, bytes, count, std::move(link)).run();
  };
  SimulatedHosts hosts(static_cast<std::size_t>(agents), main,
                       {[](std::size_t, const Frame&) {}, {}, {}});
  hosts.run();
  if (hosts.error()) std::fprintf(stderr, "%s\n", hosts.error()->message.c_str());
  for (int host = 0; host < agents; ++host)
    if (hosts.status_of(static_cast<std::size_t>(host)) != 0) return EXIT_FAILURE;
  return EXIT_SUCCESS;
}

int bench_clients(int agents, int ranks, const char* program) {
  std::string folder = std::filesystem::temp_directory_path() / "hvd-fence-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return EXIT_FAILURE;
  JobOnHosts job;
  for (const auto& host : job_over(agents, ranks).hosts)
    job.ranks_per_host.push_back(static_cast<int>(host.ranks.size()));
  job.arguments = {program, "timed"};
  job.folder = folder;
  const auto end = run_on_hosts(job);
  std::filesystem::remove_all(folder);
  if (!end) {
    std::fprintf(stderr, "%s\n", end.error().message.c_str());
    return EXIT_FAILURE;
  }
  for (const auto& rank : end->ranks)
    if (rank.wait_status != 0) {
      std::fprintf(stderr, "%s\n", rank.output.c_str());
      return EXIT_FAILURE;
    }
  std::fputs(end->ranks[0].output.c_str(), stdout);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace hvdrun

int main(int argc, char** argv) {
  const auto number = [&](int at) { return std::atoi(argv[at]); };
  if (argc == 6 && std::strcmp(argv[1], "messages") == 0 && number(2) > 0)
    return hvdrun::bench_messages(number(2), number(3), static_cast<std::size_t>(number(4)),
                                  number(5));
  if (argc == 5 && std::strcmp(argv[1], "clients") == 0 && number(2) > 0)
    return hvdrun::bench_clients(number(2), number(3), argv[4]);
  std::fprintf(stderr,
               "usage: fence_bench messages AGENTS RANKS BYTES COUNT\n"
               "       fence_bench clients AGENTS RANKS PROGRAM\n");
  return 2;
}
