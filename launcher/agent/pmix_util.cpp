#include "agent/pmix_util.hpp"

#include "common/shared_library.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <hwloc.h>

namespace hvdrun {

Result<PmixLibrary> PmixLibrary::open() {
  const auto opened = SharedLibrary::open("libpmix.so.2");
  if (!opened)
    return fail("PMIx is not here (" + opened.error() +
                "); install libpmix2, or use --pmix off for programs that need no PMIx");
  PmixLibrary library;
#define HVDRUN_PMIX_LOAD(name)            \
  if (!opened->find(#name, library.name)) \
    return fail("libpmix.so.2 has no " #name "; hvdrun needs PMIx 4.2 or newer");
  HVDRUN_PMIX_SYMBOLS(HVDRUN_PMIX_LOAD)
#undef HVDRUN_PMIX_LOAD
  return library;
}

namespace {

const pmix_value_t* find(const pmix_info_t infos[], std::size_t count, std::string_view key) {
  const auto* const end = infos + count;
  const auto* const at =
      std::find_if(infos, end, [key](const pmix_info_t& info) { return key == info.key; });
  return at == end ? nullptr : &at->value;
}

std::int64_t number_of(const pmix_value_t& value) {
  switch (value.type) {
    case PMIX_INT:
      return value.data.integer;
    case PMIX_INT8:
      return value.data.int8;
    case PMIX_INT16:
      return value.data.int16;
    case PMIX_INT32:
      return value.data.int32;
    case PMIX_INT64:
      return value.data.int64;
    case PMIX_UINT:
      return value.data.uint;
    case PMIX_UINT8:
      return value.data.uint8;
    case PMIX_UINT16:
      return value.data.uint16;
    case PMIX_UINT32:
      return value.data.uint32;
    case PMIX_UINT64:
      return static_cast<std::int64_t>(value.data.uint64);
    case PMIX_SIZE:
      return static_cast<std::int64_t>(value.data.size);
    default:
      return 0;
  }
}

// Above this many ranks on a host their shared data goes through shared memory (ds21): its files
// and locks cost 9 ms at the start, but without them every rank asks the server for every other's,
// and 128 ranks that do so take 1.5 s instead of 0.6.
constexpr std::size_t kRanksByMessage = 32;

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

std::optional<std::chrono::seconds> timeout_of(const pmix_info_t infos[], std::size_t count) {
  // A year and none are the same to a job, but not to the arithmetic of timers.
  constexpr std::int64_t kYear = 31'536'000;
  const auto* const value = find(infos, count, PMIX_TIMEOUT);
  const auto seconds = value == nullptr ? 0 : number_of(*value);
  if (seconds <= 0 || seconds > kYear) return std::nullopt;
  return std::chrono::seconds(seconds);
}

pmix_status_t local_status_of(const pmix_info_t infos[], std::size_t count) {
  const auto* const value = find(infos, count, PMIX_LOCAL_COLLECTIVE_STATUS);
  return value == nullptr || value->type != PMIX_STATUS ? PMIX_SUCCESS : value->data.status;
}

std::optional<std::vector<std::uint32_t>> ranks_of(const pmix_proc_t procs[], std::size_t count,
                                                   std::string_view nspace) {
  std::vector<std::uint32_t> ranks;
  bool all = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (nspace != procs[i].nspace) return std::nullopt;
    if (procs[i].rank == PMIX_RANK_WILDCARD) all = true;
    ranks.push_back(procs[i].rank);
  }
  if (all) return std::vector<std::uint32_t>{};
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

// libpmix would read the whole machine with all of hwloc's plugins (about 10 ms, and one of them
// tries to reach an X server); with a topology given it reads nothing.
hwloc_topology* quick_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  if (hwloc_topology_load(topology) == 0) return topology;
  hwloc_topology_destroy(topology);
  return nullptr;
}

void prepare_pmix_environment(std::size_t local_ranks) {
  ::setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);
  ::setenv("PMIX_MCA_gds", local_ranks > kRanksByMessage ? "ds21,hash" : "hash", 1);
  ::setenv("PMIX_MCA_psec", "native", 1);  // munge fails where munged does not run
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
      proc.add_rank(PMIX_RANK, static_cast<pmix_rank_t>(rank));  // must be the first
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
