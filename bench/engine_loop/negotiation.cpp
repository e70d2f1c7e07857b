// Measures the computation of a rank that negotiates a step of many named tensors, all known from
// the step before. The rank encodes its own tensors, applies the messages of two ranks, and takes
// the ready tensors.
//
//   negotiation [COUNT, 1000] [STEPS, 200]
//
// Prints the median of the microseconds of a step. bench/engine's latency includes the exchange
// between the ranks, which this program leaves out.
#include "engine/negotiation.hpp"

#include "collective/call.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

using libhvd::NamedTensor;
using libhvd::Negotiation;

constexpr std::size_t kRoom = 64 * 1024;  // the largest message of a rank

struct Rank {
  Negotiation negotiation{2, 100'000};
  std::vector<NamedTensor> names;
  std::vector<std::byte> message;
  std::mt19937 random;
};

double now_us() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(time).count();
}

void encode_own(Rank& rank) {
  const std::size_t encoded = rank.negotiation.encode(rank.names, false, kRoom, rank.message);
  if (encoded != rank.names.size()) std::abort();
}

void apply_all(Rank& rank, const std::array<Rank, 2>& all) {
  for (int from = 0; from < 2; ++from) {
    if (!rank.negotiation.apply(from, all[static_cast<std::size_t>(from)].message)) std::abort();
  }
  rank.negotiation.end_round();
}

void take_ready(Rank& rank) {
  if (rank.negotiation.ready().size() != rank.names.size()) std::abort();
  while (!rank.negotiation.ready().empty()) rank.negotiation.drop_ready(1);
}

double step(std::array<Rank, 2>& ranks) {
  for (Rank& rank : ranks) std::shuffle(rank.names.begin(), rank.names.end(), rank.random);
  encode_own(ranks[1]);
  const double begin = now_us();
  encode_own(ranks[0]);
  apply_all(ranks[0], ranks);
  take_ready(ranks[0]);
  const double time = now_us() - begin;
  apply_all(ranks[1], ranks);
  take_ready(ranks[1]);
  return time;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 1000;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 200;
  std::array<Rank, 2> ranks;
  for (unsigned rank = 0; rank < 2; ++rank) {
    ranks[rank].random.seed(rank);
    for (int i = 0; i < count; ++i)
      ranks[rank].names.push_back({libhvd::hash_name("gradient." + std::to_string(i))});
  }
  step(ranks);  // the first step sends names instead of bits
  std::vector<double> times;
  for (int i = 0; i < steps; ++i) times.push_back(step(ranks));
  std::sort(times.begin(), times.end());
  std::printf("%.3f\n", times[times.size() / 2]);
}
