// mpi_streams_pair [--too-long]: two ranks of mpirun, on different hosts to libhvd, send each other
// more than one message can hold, at the same time. With --too-long, rank 1 sends one message that
// is longer than any of libhvd's streams, and rank 0 must treat rank 1 as lost. Exit code 1: the
// received data differs from the sent data; 3: rank 1 was treated as lost.
#include "transport/mpi_streams.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

using libhvd::MpiStreams;

namespace {

void must(const libhvd::Result<void>& outcome) {
  if (outcome.ok()) return;
  std::fprintf(stderr, "%s\n", outcome.error().message.c_str());
  std::exit(1);
}

std::vector<std::uint32_t> numbers(int rank) {
  std::vector<std::uint32_t> numbers(5 * libhvd::MpiMessage::kMostBytes / 2 + 77);
  std::iota(numbers.begin(), numbers.end(), static_cast<std::uint32_t>(rank) << 28);
  return numbers;
}

// Receives in portions of other sizes than those that are sent.
bool exchange(MpiStreams& streams, int own) {
  const int other = 1 - own;
  const auto sent = numbers(own);
  std::vector<std::uint32_t> received(sent.size());
  auto* const place = reinterpret_cast<std::byte*>(received.data());
  const std::size_t bytes = sent.size() * sizeof sent[0];
  streams.send(0, other, sent.data(), bytes);
  streams.receive(0, other, place, 3);
  streams.receive(0, other, place + 3, bytes / 3);
  streams.receive(0, other, place + 3 + bytes / 3, bytes - 3 - bytes / 3);
  streams.mark();
  streams.call_due();
  while (!streams.turn(20).over) {
  }
  return received == numbers(other);
}

int receive_too_long_message(MpiStreams& streams) {
  std::byte place{};
  streams.receive(0, 1, &place, 1);
  while (true) {
    const auto state = streams.turn(20);
    if (state.over) return 1;
    if (state.lost) return 3;
  }
}

// Waits for ever: rank 0 does not receive the message. mpirun ends this rank after rank 0.
[[noreturn]] void send_too_long_message(const hvd_mpi_plugin& mpi) {
  const std::vector<std::byte> data(libhvd::MpiMessage::kMostBytes + 1);
  hvd_mpi_request request = nullptr;
  mpi.send(data.data(), static_cast<int>(data.size()), 0, 0, &request);
  int done = 0;
  while (true) mpi.test(&request, &done);
}

}  // namespace

int main(int count, char** words) {
  const int own = std::atoi(std::getenv("OMPI_COMM_WORLD_RANK"));
  const auto mpi = libhvd::MpiLibrary::open(libhvd::process_environment());
  if (!mpi.ok()) must(mpi.error());
  must(mpi->check(own, 2));
  must(mpi->start(own, 2));
  must(mpi->join());
  must(mpi->reserve_tags(0, 1));
  const bool too_long = count > 1 && std::strcmp(words[1], "--too-long") == 0;
  if (too_long && own == 1) send_too_long_message(mpi->functions());
  const auto streams = MpiStreams::start(libhvd::StreamPlan(std::vector<int>{0, 1}), *mpi,
                                         {{0, 1 - own, 1 - own, 1 - own, 0}});
  if (!streams.ok()) must(streams.error());
  if (too_long) return receive_too_long_message(**streams);
  for (int round = 0; round < 3; ++round) {
    if (!exchange(**streams, own)) return 1;
  }
  return 0;
}
