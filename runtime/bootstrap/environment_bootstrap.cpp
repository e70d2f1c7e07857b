// The bootstrap of a job that variables describe: HVD_RANK, HVD_SIZE, …, or torch's RANK,
// WORLD_SIZE, …. Its ranks meet by a rendezvous.
#include "base/process_environment.hpp"
#include "bootstrap/bootstrap.hpp"
#include "bootstrap/chosen_ranks.hpp"
#include "bootstrap/job_secret.hpp"
#include "bootstrap/rendezvous.hpp"
#include "common/text.hpp"
#include "common/variables.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace libhvd {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::int64_t kLastPort = 65535;
constexpr std::int64_t kMorePorts = 64;           // tried after the first
constexpr std::int64_t kPortsLeftToProgram = 64;  // after MASTER_PORT

// The names of the variables.
struct Names {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* node_rank;
  const char* node_count;
};

constexpr Names kOurs{HVD_ENV_RANK,       HVD_ENV_SIZE,      HVD_ENV_LOCAL_RANK,
                      HVD_ENV_LOCAL_SIZE, HVD_ENV_NODE_RANK, HVD_ENV_NODE_COUNT};
constexpr Names kTorch{"RANK",       "WORLD_SIZE",      "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                       "GROUP_RANK", "GROUP_WORLD_SIZE"};

// Reads an index and a count. Either may be missing. Error: index >= count.
Result<void> read_pair(const Environment& environment, const char* index_name,
                       const char* count_name, std::optional<int>& index,
                       std::optional<int>& count) {
  HVD_TRY(const auto first, read_integer(environment, index_name, 0, kMostRanks));
  HVD_TRY(const auto second, read_integer(environment, count_name, 1, kMostRanks));
  if (first && second && *first >= *second) {
    return fail(HVD_ERROR_ENVIRONMENT, std::string(index_name) + "=" + std::to_string(*first) +
                                           " must be less than " + count_name + "=" +
                                           std::to_string(*second));
  }
  if (first) index = static_cast<int>(*first);
  if (second) count = static_cast<int>(*second);
  return {};
}

// Returns the port and those after it, because another program may use the first.
std::vector<std::uint16_t> ports_from(std::int64_t port) {
  std::vector<std::uint16_t> ports;
  const std::int64_t last = std::min(kLastPort, port + kMorePorts);
  while (port <= last) ports.push_back(static_cast<std::uint16_t>(port++));
  return ports;
}

// Returns the ports that rank 0 may listen on. Groups of ranks that start separately
// (hvd_init_with) share them: a server refuses ranks of another group in the handshake.
Result<std::vector<std::uint16_t>> read_ports(const Environment& environment) {
  HVD_TRY(const auto own, read_integer(environment, HVD_ENV_PORT, 1, kLastPort));
  if (own) return ports_from(*own);
  HVD_TRY(const auto master, read_integer(environment, "MASTER_PORT", 1, kLastPort));
  if (!master) {
    return fail(HVD_ERROR_ENVIRONMENT,
                "with more than one rank, MASTER_PORT (or HVD_PORT) must say where rank 0 is "
                "found; it is not set");
  }
  // MASTER_PORT and the ports after it belong to the program.
  const std::int64_t above = *master + kPortsLeftToProgram + 1;
  return ports_from(above + kMorePorts <= kLastPort ? above : *master - kMorePorts - 1);
}

Result<JobSecret> read_secret(const Environment& environment, int size, const ChosenRanks& chosen) {
  JobSecret secret;
  secret.size = size;
  secret.ranks = fold_ranks(chosen);
  for (const char* name : {"TORCHELASTIC_RUN_ID", HVD_ENV_JOB_ID}) {
    if (is_set(environment, name)) secret.job_id = *environment(name);
  }
  HVD_TRY(secret.key, read_job_key(environment));
  HVD_TRY(secret.encrypted, read_data_tls(environment));
  if (secret.encrypted) HVD_CHECK(check_encryption(environment));
  return secret;
}

class EnvironmentBootstrap final : public Bootstrap {
 public:
  EnvironmentBootstrap(const RankInfo& info, std::unique_ptr<Rendezvous> rendezvous)
      : info_(info), rendezvous_(std::move(rendezvous)) {}

  const RankInfo& info() const override { return info_; }

  Result<std::vector<std::string>> exchange(const std::string& own) override {
    if (!rendezvous_) return std::vector<std::string>{own};
    return rendezvous_->exchange(own);
  }

  std::optional<Address> own_address() const override {
    return rendezvous_ ? rendezvous_->own_address() : std::nullopt;
  }

 private:
  RankInfo info_;
  std::unique_ptr<Rendezvous> rendezvous_;  // null with one rank
};

}  // namespace

Result<RankInfo> read_rank_info(const Environment& environment) {
  const bool ours = is_set(environment, kOurs.rank) || is_set(environment, kOurs.size);
  const Names& names = ours ? kOurs : kTorch;
  for (const auto& [there, missing] :
       {std::pair(names.rank, names.size), std::pair(names.size, names.rank)}) {
    if (is_set(environment, there) && !is_set(environment, missing)) {
      return fail(HVD_ERROR_ENVIRONMENT,
                  std::string(there) + " is set, but " + missing + " is not");
    }
  }
  std::optional<int> rank;
  std::optional<int> size;
  RankInfo info;
  HVD_CHECK(read_pair(environment, names.rank, names.size, rank, size));
  HVD_CHECK(
      read_pair(environment, names.local_rank, names.local_size, info.local_rank, info.local_size));
  HVD_CHECK(
      read_pair(environment, names.node_rank, names.node_count, info.node_rank, info.node_count));
  info.rank = rank.value_or(0);
  info.size = size.value_or(1);
  return info;
}

Result<std::unique_ptr<Bootstrap>> open_environment_bootstrap(const Environment& environment,
                                                              const BootstrapOptions& options) {
  HVD_TRY(const RankInfo in_job, read_rank_info(environment));
  HVD_TRY(const ChosenRanks chosen, choose_ranks(options.ranks, in_job));
  const RankInfo info = info_among(chosen, in_job);
  std::unique_ptr<Rendezvous> rendezvous;
  if (info.size > 1) {
    RendezvousSpec spec;
    spec.rank = info.rank;
    spec.chosen = chosen;
    spec.timeout = options.timeout;
    spec.cancel = options.cancel;
    if (!is_set(environment, "MASTER_ADDR")) {
      return fail(HVD_ERROR_ENVIRONMENT,
                  "with more than one rank, MASTER_ADDR must name rank 0's host; it is not set");
    }
    spec.address = *environment("MASTER_ADDR");
    spec.interface = environment(HVD_ENV_INTERFACE).value_or("");
    HVD_TRY(spec.ports, read_ports(environment));
    HVD_TRY(spec.secret, read_secret(environment, info.size, chosen));
    HVD_TRY(rendezvous, info.rank == 0 ? serve_rendezvous(spec) : join_rendezvous(spec));
  }
  return std::unique_ptr<Bootstrap>(
      std::make_unique<EnvironmentBootstrap>(info, std::move(rendezvous)));
}

}  // namespace libhvd
