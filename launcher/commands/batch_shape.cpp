#include "commands/batch_shape.hpp"

#include "common/text.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr int kMostRanks = 1 << 24;

int divide_up(int a, int b) {
  return (a - 1) / b + 1;
}

// Returns how many ranks a node can have; nullopt if that is unknown.
std::optional<int> capacity_of_node(const JobSpec& job, const BatchSpec& batch) {
  if (job.ranks_per_host) return job.ranks_per_host;
  if (batch.gpus_per_node.value_or(0) > 0) return batch.gpus_per_node;
  if (batch.cpus_per_node && job.cpus_per_rank)
    return std::max(1, *batch.cpus_per_node / *job.cpus_per_rank);
  return std::nullopt;
}

Result<int> number_of_ranks(const JobSpec& job, const BatchSpec& batch, std::optional<int> nodes) {
  if (job.ranks) return *job.ranks;
  if (const auto capacity = capacity_of_node(job, batch); nodes && capacity) {
    if (*nodes > kMostRanks / *capacity)
      return fail(fmt::format("{} with {} each are more than hvdrun can start",
                              plural(*nodes, "node"), plural(*capacity, "rank")),
                  kExitUsage);
    return *nodes * *capacity;
  }
  if (const auto capacity = capacity_of_node(job, batch))
    return fail(fmt::format("how many ranks? -np N, or --nodes N; --nodes 1 has {}",
                            plural(*capacity, "rank")),
                kExitUsage);
  if (batch.gpus_per_node == 0)
    return fail("how many ranks? without GPUs: -np N, or --nodes N with --ranks-per-host K",
                kExitUsage);
  return fail("how many ranks? -np N, or --nodes N with --gpus-per-node K", kExitUsage);
}

Result<void> check_numbers(int ranks, const JobSpec& job, const BatchSpec& batch) {
  if (ranks > kMostRanks)
    return fail(plural(ranks, "rank") + " are more than hvdrun can start", kExitUsage);
  const int gpus = batch.gpus_per_node.value_or(0);
  if (gpus > 0 && job.ranks_per_host.value_or(0) > gpus && !job.oversubscribe)
    return fail(fmt::format("--ranks-per-host {} on nodes with {}: ranks would share GPUs, which "
                            "--oversubscribe allows",
                            *job.ranks_per_host, plural(gpus, "GPU")),
                kExitUsage);
  return {};
}

// Returns how many ranks the job may have. Of a job with spares without -np, the spares are among
// those of the nodes.
Result<int> number_of_places(int ranks, const JobSpec& job, const BatchSpec& batch) {
  const auto& elastic = job.elastic;
  const int with_spares = ranks + (job.ranks ? elastic.spares : 0);
  const int places = std::max(with_spares, elastic.max_ranks.value_or(0));
  HVD_CHECK(check_numbers(places, job, batch));
  return places;
}

// Returns the number of ranks or GPUs that share a node's CPUs; 0 if it is unknown.
int cpu_shares(const BatchShape& shape, const JobSpec& job, const BatchSpec& batch) {
  const int gpus = batch.gpus_per_node.value_or(0);
  if (gpus > 0 && !job.ranks_per_host)
    return std::max(std::min(gpus, batch.gpus_beside_cpus.value_or(gpus)),
                    shape.ranks_per_node.value_or(1));
  if (shape.nodes) return divide_up(shape.places, *shape.nodes);
  return 0;
}

}  // namespace

Result<BatchShape> batch_shape(const JobSpec& job, const BatchSpec& batch) {
  BatchShape shape;
  shape.nodes = batch.nodes ? batch.nodes : job.nodes;
  HVD_TRY(shape.ranks, number_of_ranks(job, batch, shape.nodes));
  HVD_CHECK(check_numbers(shape.ranks, job, batch));
  HVD_TRY(shape.places, number_of_places(shape.ranks, job, batch));
  shape.survives_nodes = job.elastic.min_ranks.has_value();
  if (const auto capacity = capacity_of_node(job, batch); capacity) {
    const int needed = divide_up(shape.places, *capacity);
    if (shape.nodes.value_or(needed) < needed)
      return fail(fmt::format("{} do not fit on {} with {} each: --nodes {}, or fewer ranks",
                              plural(shape.places, "rank"), plural(*shape.nodes, "node"),
                              batch.gpus_per_node.value_or(0) > 0 && !job.ranks_per_host
                                  ? plural(*capacity, "GPU")
                                  : plural(*capacity, "rank"),
                              needed),
                  kExitUsage);
    if (!shape.nodes) shape.nodes = needed;
  }
  if (shape.nodes) {
    // hvdrun fills one node after the other with this many ranks.
    shape.ranks_per_node = divide_up(shape.places, *shape.nodes);
    if (const int used = divide_up(shape.places, *shape.ranks_per_node); used < *shape.nodes)
      return fail(fmt::format("{} on {}, {} each: only {} would have any; --nodes {}",
                              plural(shape.places, "rank"), plural(*shape.nodes, "node"),
                              *shape.ranks_per_node, plural(used, "node"), used),
                  kExitUsage);
  }
  if (const int gpus = batch.gpus_per_node.value_or(0); gpus > 0)
    shape.gpus_per_node = job.ranks_per_host ? gpus : divide_up(shape.places, *shape.nodes);
  const int shares = cpu_shares(shape, job, batch);
  if (job.cpus_per_rank) {
    shape.cpus_per_rank = *job.cpus_per_rank;
  } else if (batch.cpus_per_node && shares > 0) {
    shape.cpus_per_rank = std::max(1, *batch.cpus_per_node / shares);
  }
  return shape;
}

std::string describe(const BatchShape& shape) {
  std::string text = plural(shape.ranks, "rank");
  if (shape.places > shape.ranks) text += ", places for " + std::to_string(shape.places);
  text += ": ";
  if (shape.nodes) {
    text += plural(*shape.nodes, "node");
    if (shape.gpus_per_node > 0) text += " × " + plural(shape.gpus_per_node, "GPU");
    if (shape.ranks_per_node && *shape.ranks_per_node != shape.gpus_per_node) {
      const auto ranks = plural(*shape.ranks_per_node, "rank");
      const bool even = *shape.ranks_per_node * *shape.nodes == shape.places;
      text += even ? " × " + ranks : ", at most " + ranks + " on each";
    }
    text += ", ";
  }
  return text + plural(shape.cpus_per_rank, "CPU") + " per rank";
}

}  // namespace hvdrun
