// A job's numbers for Prometheus: the text, and the server of --metrics :PORT.
#include "control/metrics_server.hpp"
#include "control/metrics_text.hpp"
#include "run_until.hpp"

#include <cerrno>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

JobNow a_job() {
  JobNow now;
  now.about.id = "abc";
  now.about.version = "0.1.0";
  now.about.phase = "running";
  now.about.ranks = 2;
  now.about.hosts = 1;
  now.hosts.push_back(
      {.host = "n\"1", .state = "running", .clock = 1, .ranks = {0, 1}, .gpus = {}});
  now.hosts[0].gpus.push_back({.uuid = "GPU-1",
                               .device = "GPU 0",
                               .busy_percent = 50,
                               .memory_bytes = 1 << 20,
                               .memory_in_all = 0,
                               .celsius = 40,
                               .watts = 250.5});
  for (int i = 0; i < 2; ++i) {
    auto& rank = now.ranks.emplace_back();
    rank.rank = i;
    rank.pid = 100 + i;
    rank.state = "running";
    rank.cpu_seconds = 1.25;
    rank.memory_bytes = 4096;
    rank.processes = 1;
  }
  now.ranks[0].gpu = 0;
  now.ranks[0].samples = 640;
  now.waits.push_back(
      {.text = "", .collective = "allreduce", .seconds = 3, .waiting = {0}, .missing = {1}});
  return now;
}

TEST(MetricsText, HasEachRankWithBaseUnits) {
  const auto text = metrics_text(a_job(), MetricsFormat::prometheus);
  EXPECT_THAT(text,
              HasSubstr("# TYPE hvdrun_rank_cpu_seconds_total counter\n"
                        "hvdrun_rank_cpu_seconds_total{job_id=\"abc\",rank=\"0\",host=\"n\\\"1"
                        "\"} 1.25\n"));
  EXPECT_THAT(text, HasSubstr("hvdrun_rank_samples_total{job_id=\"abc\",rank=\"0\""));
  EXPECT_THAT(text, Not(HasSubstr("hvdrun_rank_samples_total{job_id=\"abc\",rank=\"1\"")))
      << "it has reported none";
  EXPECT_THAT(text, HasSubstr("hvdrun_rank_gpu_utilization_ratio{job_id=\"abc\",rank=\"0\",host="
                              "\"n\\\"1\"} 0.5\n"));
  EXPECT_THAT(text, HasSubstr("hvdrun_rank_awaiting_ranks{job_id=\"abc\",rank=\"1\",host=\"n\\\"1"
                              "\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("# EOF")));
}

TEST(MetricsText, OpenMetricsNamesCountersWithoutTotalAndHasAnEnd) {
  const auto text = metrics_text(a_job(), MetricsFormat::openmetrics);
  EXPECT_THAT(text, HasSubstr("# TYPE hvdrun_rank_cpu_seconds counter\n"
                              "# UNIT hvdrun_rank_cpu_seconds seconds\n"
                              "hvdrun_rank_cpu_seconds_total{"));
  EXPECT_THAT(text, HasSubstr("# TYPE hvdrun_job info\nhvdrun_job_info{"));
  EXPECT_TRUE(text.ends_with("\n# EOF\n"));
}

TEST(MetricsText, ARankThatHasEndedHasNoMemoryAndOneThatIsUnknownIsLeftOut) {
  auto job = a_job();
  job.ranks[0].end = "exit code 0";
  job.ranks[1].state = "unknown";
  const auto text = metrics_text(job, MetricsFormat::prometheus);
  EXPECT_THAT(text, HasSubstr("hvdrun_rank_up{job_id=\"abc\",rank=\"0\",host=\"n\\\"1\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("memory_bytes")));
  EXPECT_THAT(text, Not(HasSubstr("rank=\"1\"")));
}

TEST(MetricsText, SparesAndLostRanksAreCountedApart) {
  auto job = a_job();
  job.about.ranks = 1;
  job.about.spares = 2;
  job.about.lost = 3;
  job.ranks[1].role = "spare";
  const auto text = metrics_text(job, MetricsFormat::prometheus);
  for (const auto* const line : {"job_ranks{job_id=\"abc\"} 1\n", "job_spares{job_id=\"abc\"} 2\n",
                                 "job_lost_ranks{job_id=\"abc\"} 3\n"})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(text, HasSubstr("rank_in_job{job_id=\"abc\",rank=\"0\",host=\"n\\\"1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("rank_in_job{job_id=\"abc\",rank=\"1\",host=\"n\\\"1\"} 0\n"));
}

Fd connect(std::uint16_t port) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  return socket;
}

// Sends the text to the server while the loop runs, and returns what comes until the end.
std::string exchange(EventLoop& loop, std::uint16_t port, const std::string& request) {
  const Fd socket = connect(port);
  EXPECT_EQ(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  FdEvent readable(loop, socket.get(), FdEvent::readable, [&] {
    char buffer[4096];  // NOLINT: filled by recv
    const auto count = ::recv(socket.get(), buffer, sizeof buffer, 0);
    if (count > 0) return void(answer.append(buffer, static_cast<std::size_t>(count)));
    readable.disable();
    loop.stop();
  });
  readable.enable();
  loop.run();
  return answer;
}

TEST(MetricsServer, AnswersAtItsPathInTheFormatThatIsWanted) {
  EventLoop loop;
  auto server = MetricsServer::start(loop, 0, [](const auto& answer) { answer(a_job()); });
  ASSERT_TRUE(server) << server.error().message;
  const auto port = (*server)->port();
  auto answer = exchange(loop, port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4;"));
  EXPECT_THAT(answer, HasSubstr("\r\n\r\n# HELP hvdrun_job_info"));
  answer = exchange(
      loop, port, "GET /metrics?x=1 HTTP/1.1\r\nACCEPT: application/openmetrics-text;q=1\r\n\r\n");
  EXPECT_TRUE(answer.ends_with("# EOF\n")) << answer;
  EXPECT_THAT(exchange(loop, port, "HEAD /metrics HTTP/1.1\r\n\r\n"),
              testing::EndsWith("\r\n\r\n"));
  EXPECT_THAT(exchange(loop, port, "GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(exchange(loop, port, "POST /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_EQ(exchange(loop, port, std::string(20000, 'x')), "") << "too long";
  EXPECT_FALSE(MetricsServer::start(loop, port, {})) << "the port is in use";
}

TEST(MetricsServer, ConnectionsWithoutARequestKeepNoScrapeAway) {
  EventLoop loop;
  auto server = MetricsServer::start(loop, 0, [](const auto& answer) { answer(a_job()); });
  ASSERT_TRUE(server) << server.error().message;
  const auto port = (*server)->port();
  std::vector<Fd> idle;
  for (int i = 0; i < 200; ++i) {  // none waits for the kernel's next try, a second later
    idle.push_back(connect(port));
    if (i % 2 == 0) ::send(idle.back().get(), "GET", 3, MSG_NOSIGNAL);
  }
  EXPECT_THAT(exchange(loop, port, "GET /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  char byte = 0;
  EXPECT_LE(::recv(idle.front().get(), &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_NE(errno, EAGAIN) << "the oldest is closed";
}

TEST(MetricsServer, ManyScrapersThatAreNotAnsweredYetAreLimited) {
  EventLoop loop;
  std::vector<std::function<void(const JobNow&)>> asked;
  auto server =
      MetricsServer::start(loop, 0, [&](auto answer) { asked.push_back(std::move(answer)); });
  ASSERT_TRUE(server) << server.error().message;
  std::vector<Fd> scrapers;
  for (int i = 0; i < 40; ++i) {
    scrapers.push_back(connect((*server)->port()));
    ::send(scrapers.back().get(), "GET /metrics HTTP/1.1\r\n\r\n", 25, MSG_NOSIGNAL);
  }
  run_until(
      loop, [&] { return asked.size() == 40; }, "the requests");
  for (const auto& answer : asked) answer(a_job());
  const auto answers = [](const Fd& socket) {
    char byte = 0;
    return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 1;
  };
  EXPECT_FALSE(answers(scrapers.front()));
  EXPECT_TRUE(answers(scrapers.back()));
  server->reset();
  asked.front()(a_job());
}

}  // namespace
}  // namespace hvdrun
