// Measures how fast launcher/output labels and writes lines. It gets chunks of 64 KiB of 4 or 64
// ranks in turn, which end within lines. It writes to /dev/null, and to a pipe whose reader drops
// all bytes.
//
//   output_lines [megabytes a rank, 100]
//
// Prints the best of five runs, in MB of the ranks' output for each second.
#include "base/system.hpp"
#include "common/fd.hpp"
#include "output/output.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <event2/event.h>
#include <fcntl.h>
#include <unistd.h>

namespace {

using namespace hvdrun;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kChunk = 64 * 1024;

struct Case {
  const char* name;
  std::size_t line_length;
  const char* label;
  bool timestamps;
  FoldLines fold = FoldLines::off;
  int ranks = 4;
};

Placement placement_of(int ranks) {
  Placement placement;
  placement.size = ranks;
  placement.hosts.resize(1);
  placement.hosts[0].host = "node1";
  for (int rank = 0; rank < ranks; ++rank) {
    RankPlacement& each = placement.hosts[0].ranks.emplace_back();
    each.rank = each.local_rank = rank;
  }
  return placement;
}

std::string lines_of(std::size_t length) {
  std::string text;
  while (text.size() < length * kChunk) text += std::string(length - 1, 'x') + '\n';
  return text;
}

// Writes `bytes` of each rank. Returns the seconds.
double run_once(const Case& test, std::size_t bytes, int fd) {
  const std::unique_ptr<event_base, void (*)(event_base*)> loop(event_base_new(), event_base_free);
  OutputSpec spec;
  spec.label = test.label;
  spec.timestamps = test.timestamps;
  spec.fold = test.fold;
  auto output = Output::open(loop.get(), spec, {}, {fd, 2});
  if (output) static_cast<void>((*output)->begin(placement_of(test.ranks)));
  if (!output) {
    std::fprintf(stderr, "output_lines: %s\n", output.error().message.c_str());
    std::exit(1);
  }
  const std::string text = lines_of(test.line_length);
  const auto begin = Clock::now();
  for (std::size_t sent = 0; sent < bytes; sent += kChunk) {
    const std::size_t from = sent % (text.size() - kChunk);
    const std::string_view chunk = std::string_view(text).substr(from, kChunk);
    for (int rank = 0; rank < test.ranks; ++rank)
      (*output)->write(rank, Stream::out, chunk, std::chrono::system_clock::now());
    do event_base_loop(loop.get(), (*output)->congested() ? EVLOOP_ONCE : EVLOOP_NONBLOCK);
    while ((*output)->congested());
  }
  (*output)->flush(std::chrono::minutes(1));
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double run_to_pipe(const Case& test, std::size_t bytes) {
  auto pipe = make_pipe();
  if (!pipe) std::exit(1);
  std::thread reader([&] {
    std::vector<char> buffer(1 << 20);
    while (::read(pipe->read.get(), buffer.data(), buffer.size()) > 0) {
    }
  });
  const double seconds = run_once(test, bytes, pipe->write.get());
  pipe->write.reset();
  reader.join();
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const std::size_t megabytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 100;
  const std::size_t bytes = megabytes * 1'000'000;
  const Fd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const std::vector<Case> cases = {
      {"100-byte lines, [rank]", 100, "rank", false},
      {"100-byte lines, [rank@host]", 100, "rank@host", false},
      {"100-byte lines, timestamps", 100, "rank", true},
      {"100-byte lines, no label", 100, "none", false},
      {"10-byte lines, [rank]", 10, "rank", false},
      {"10000-byte lines, [rank]", 10000, "rank", false},
      {"100-byte lines, folded", 100, "rank", false, FoldLines::on},
      {"10-byte lines, folded", 10, "rank", false, FoldLines::on},
      {"100-byte lines, 64 folded", 100, "rank", false, FoldLines::on, 64},
  };
  std::printf("%-30s %12s %12s   (MB/s)\n", "", "/dev/null", "pipe");
  for (const Case& test : cases) {
    double to_null = 1e9, to_pipe = 1e9;
    for (int i = 0; i < 5; ++i) {
      to_null = std::min(to_null, run_once(test, bytes, null.get()));
      to_pipe = std::min(to_pipe, run_to_pipe(test, bytes));
    }
    const double total = static_cast<double>(bytes) * test.ranks / 1e6;
    std::printf("%-30s %12.0f %12.0f\n", test.name, total / to_null, total / to_pipe);
  }
}
