// mpi_streams_pair: two ranks of mpirun, each on a host of its own, send each other more than a
// message holds, both at once. Exit code 1: what has come is not what was sent.
#include "transport/mpi_streams.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

using libhvd::MpiStreams;

namespace {

void must(const libhvd::Outcome& outcome) {
  if (outcome.ok()) return;
  std::fprintf(stderr, "%s\n", outcome.error().message.c_str());
  std::exit(1);
}

std::vector<std::uint32_t> numbers(int rank) {
  std::vector<std::uint32_t> numbers(5 * libhvd::MpiMessage::kMostBytes / 2 + 77);
  std::iota(numbers.begin(), numbers.end(), static_cast<std::uint32_t>(rank) << 28);
  return numbers;
}

// What is taken in other portions than it was sent in.
bool exchange(MpiStreams& streams, int own) {
  const int other = 1 - own;
  const auto sent = numbers(own);
  std::vector<std::uint32_t> come(sent.size());
  auto* const place = reinterpret_cast<std::byte*>(come.data());
  const std::size_t bytes = sent.size() * sizeof sent[0];
  streams.send(0, other, sent.data(), bytes);
  streams.receive(0, other, place, 3);
  streams.receive(0, other, place + 3, bytes / 3);
  streams.receive(0, other, place + 3 + bytes / 3, bytes - 3 - bytes / 3);
  streams.mark();
  streams.call_due();
  while (!streams.turn(20).over) {
  }
  return come == numbers(other);
}

}  // namespace

int main() {
  const int own = std::atoi(std::getenv("OMPI_COMM_WORLD_RANK"));
  const auto mpi = libhvd::MpiLibrary::open(libhvd::process_environment());
  if (!mpi.ok()) must(mpi.error());
  must(mpi->check(own, 2));
  must(mpi->start(own, 2));
  must(mpi->join());
  must(mpi->reserve_tags(0, 1));
  const auto streams = MpiStreams::start(libhvd::StreamPlan(std::vector<int>{0, 1}), *mpi,
                                         {{0, 1 - own, 1 - own, 1 - own, 0}});
  if (!streams.ok()) must(streams.error());
  for (int round = 0; round < 3; ++round) {
    if (!exchange(**streams, own)) return 1;
  }
  return 0;
}
