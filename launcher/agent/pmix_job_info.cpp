#include "agent/pmix_job_info.hpp"

#include "common/bundled_library.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <fmt/format.h>
#include <hwloc.h>
#include <pwd.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// On a host with more ranks than this, their shared data is in shared memory (ds21). Its files and
// locks cost 9 ms at the start. Without them every rank asks the server for the data of every other
// rank: 128 ranks that do so take 1.5 s instead of 0.6.
constexpr std::size_t kRanksByMessage = 32;

// What Docker and OpenShift set for such a user.
constexpr const char* kNoHome = "/";

// Without it Intel MPI does not use PMIx, and each rank is rank 0 of 1.
constexpr std::string_view kIntelMpi = "I_MPI_PMI_LIBRARY";

// Returns the user's home folder as the system knows it.
std::string home_folder() {
  const auto* const entry = ::getpwuid(::geteuid());
  return entry != nullptr && entry->pw_dir != nullptr ? entry->pw_dir : kNoHome;
}

Result<void> add_maps(const PmixLibrary& library, const PmixJob& job, PmixInfoList& info) {
  std::string names;
  std::string ranks;
  for (const auto& host : job.hosts) {
    if (!names.empty()) {
      names += ',';
      ranks += ';';
    }
    names += host.name;
    ranks += fmt::format("{}", fmt::join(host.ranks, ","));
  }
  char* node_map = nullptr;
  char* proc_map = nullptr;
  auto status = library.PMIx_generate_regex(names.c_str(), &node_map);
  if (status == PMIX_SUCCESS) status = library.PMIx_generate_ppn(ranks.c_str(), &proc_map);
  const std::unique_ptr<char, decltype(&std::free)> free_nodes(node_map, &std::free);
  const std::unique_ptr<char, decltype(&std::free)> free_procs(proc_map, &std::free);
  if (status != PMIX_SUCCESS)
    return fail(
        fmt::format("PMIx cannot describe the hosts: {}", library.PMIx_Error_string(status)));
  info.add_regex(PMIX_NODE_MAP, node_map);
  info.add_regex(PMIX_PROC_MAP, proc_map);
  return {};
}

}  // namespace

// By itself libpmix would read the whole machine with all of hwloc's plugins. That takes about 10
// ms, and one plugin tries to reach an X server. If libpmix gets a topology it reads nothing.
hwloc_topology* quick_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  if (hwloc_topology_load(topology) == 0) return topology;
  hwloc_topology_destroy(topology);
  return nullptr;
}

void add_defaults_of_pmix(const PmixLibrary& library, std::vector<std::string>& environment) {
  const auto has = [&](std::string_view name) {
    return std::any_of(environment.begin(), environment.end(), [name](std::string_view entry) {
      return entry.starts_with(name) && entry.substr(name.size()).starts_with('=');
    });
  };
  if (!has("HOME")) environment.push_back("HOME=" + home_folder());
  Dl_info file{};
  const auto* const function = reinterpret_cast<const void*>(library.PMIx_Get_version);
  if (!has(kIntelMpi) && ::dladdr(function, &file) != 0)
    environment.push_back(fmt::format("{}={}", kIntelMpi, file.dli_fname));
}

void prepare_pmix_environment(const PmixLibrary& library, std::size_t local_ranks) {
  ::setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);
  const bool has_ds21 = !common::pmix_is_at_least(library.PMIx_Get_version(), "5.0.0");
  ::setenv("PMIX_MCA_gds", has_ds21 && local_ranks > kRanksByMessage ? "ds21,hash" : "hash", 1);
  ::setenv("PMIX_MCA_psec", "native", 1);  // munge fails if munged does not run
  if (::getenv("HOME") == nullptr) ::setenv("HOME", home_folder().c_str(), 1);
}

Result<PmixInfoList> describe_job(const PmixLibrary& library, const PmixJob& job,
                                  const std::filesystem::path& folder) {
  const auto& here = job.local_ranks();
  const auto size = static_cast<std::uint32_t>(job.size);
  PmixInfoList info;
  info.add_uint32(PMIX_JOB_SIZE, size);
  info.add_uint32(PMIX_MAX_PROCS, size);
  info.add_uint32(PMIX_UNIV_SIZE, size);
  info.add_uint32(PMIX_JOB_NUM_APPS, 1);
  info.add_uint32(PMIX_NUM_NODES, static_cast<std::uint32_t>(job.hosts.size()));
  info.add_uint32(PMIX_LOCAL_SIZE, static_cast<std::uint32_t>(here.size()));
  info.add_uint32(PMIX_NODE_SIZE, static_cast<std::uint32_t>(here.size()));
  info.add(PMIX_LOCAL_PEERS, fmt::format("{}", fmt::join(here, ",")));
  info.add_rank(PMIX_LOCALLDR, static_cast<pmix_rank_t>(here.front()));
  info.add_uint32(PMIX_NODEID, static_cast<std::uint32_t>(job.host_index));
  info.add(PMIX_SPAWNED, false);
  info.add(PMIX_TMPDIR, folder.string());
  info.add(PMIX_NSDIR, folder.string());
  info.add(PMIX_TDIR_RMCLEAN, true);
  HVD_CHECK(add_maps(library, job, info));
  for (std::size_t node = 0; node < job.hosts.size(); ++node) {
    std::uint16_t local_rank = 0;
    for (const int rank : job.hosts[node].ranks) {
      auto& proc = info.add_list(PMIX_PROC_DATA);
      proc.add_rank(PMIX_RANK, static_cast<pmix_rank_t>(rank));  // must be first
      proc.add_uint16(PMIX_LOCAL_RANK, local_rank);
      proc.add_uint16(PMIX_NODE_RANK, local_rank);
      proc.add_uint32(PMIX_APPNUM, 0);
      proc.add_rank(PMIX_GLOBAL_RANK, static_cast<pmix_rank_t>(rank));
      proc.add_rank(PMIX_APP_RANK, static_cast<pmix_rank_t>(rank));
      proc.add_uint32(PMIX_NODEID, static_cast<std::uint32_t>(node));
      proc.add(PMIX_HOSTNAME, job.hosts[node].name);
      ++local_rank;
    }
  }
  return info;
}

}  // namespace hvdrun
