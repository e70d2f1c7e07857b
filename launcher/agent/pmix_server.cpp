#include "agent/pmix_server.hpp"

#include "agent/pmix_info.hpp"
#include "agent/pmix_library.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include <fmt/format.h>
#include <hwloc.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::seconds kPatience{10};

// Counts down answers that PMIx gives on its own thread. Shared, since an answer may come after
// the waiting has been given up.
class Answers {
 public:
  explicit Answers(int expected) : open_(expected) {}

  // pmix_op_cbfunc_t; `context` is a new std::shared_ptr<Answers>, freed here.
  static void on_answer(pmix_status_t status, void* context) {
    const std::unique_ptr<std::shared_ptr<Answers>> self(
        static_cast<std::shared_ptr<Answers>*>(context));
    (*self)->answer(status);
  }

  void answer(pmix_status_t status) {
    const std::lock_guard lock(mutex_);
    if (status != PMIX_SUCCESS) status_ = status;
    if (--open_ == 0) changed_.notify_all();
  }

  pmix_status_t wait() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return open_ <= 0; })) return PMIX_ERR_TIMEOUT;
    return status_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int open_;
  pmix_status_t status_ = PMIX_SUCCESS;
};

// Open MPI 4.1 takes a PMIx server that is not its own only when told that neither mpirun nor srun
// is around; it would be "rank 0 of 1" otherwise, without a word. It must not bind: we did.
constexpr std::array kOpenMpiSettings{"OMPI_MCA_schizo=^orte,slurm",
                                      "OMPI_MCA_hwloc_base_binding_policy=none",
                                      "OMPI_MCA_orte_externally_bound=1"};

enum class ClientState : char { away, connected, finalized };

}  // namespace

class PmixServer::Impl {
 public:
  Impl(const EventLoop& loop, PmixLibrary library, std::string nspace, std::filesystem::path folder,
       Events events)
      : library_(library),
        nspace_(std::move(nspace)),
        folder_(std::move(folder)),
        events_(std::move(events)),
        mailbox_(loop) {}
  ~Impl() { current = nullptr; }

  Result<void> start(std::size_t local_ranks);
  Result<void> register_job(const PmixJob& job);
  Result<std::vector<std::string>> environment_of(int rank) const;
  void drain() { mailbox_.drain(); }
  bool left_without_finalize(int rank) const {
    const auto at = clients_.find(rank);
    return at != clients_.end() && at->second == ClientState::connected;
  }

 private:
  static pmix_server_module_t make_module();
  // What libpmix calls, on its thread. Its callbacks carry no context of ours before a client is
  // known, hence the one static.
  static inline std::atomic<Impl*> current{nullptr};
  static pmix_status_t on_connected(const pmix_proc_t* proc, void*, pmix_info_t*, size_t,
                                    pmix_op_cbfunc_t, void*);
  static pmix_status_t on_finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t, void*);
  static pmix_status_t on_abort(const pmix_proc_t* proc, void*, int status, const char text[],
                                pmix_proc_t[], size_t, pmix_op_cbfunc_t, void*);
  void post_state(pmix_rank_t rank, ClientState state) {
    mailbox_.post([this, rank, state] { clients_[static_cast<int>(rank)] = state; });
  }
  void post_abort(pmix_rank_t rank, int code, std::string text) {
    mailbox_.post([this, rank, code, text = std::move(text)]() mutable {
      events_.on_abort(static_cast<int>(rank), code, std::move(text));
    });
  }

  template <class Call>
  Result<void> wait_for(const std::string& what, int count, Call call);
  Result<void> error(const std::string& what, pmix_status_t status) const {
    return fail(fmt::format("PMIx {}: {}", what, library_.PMIx_Error_string(status)));
  }
  Result<PmixInfoList> describe(const PmixJob& job) const;
  Result<void> add_maps(const PmixJob& job, PmixInfoList& info) const;

  PmixLibrary library_;
  std::string nspace_;
  std::filesystem::path folder_;
  Events events_;
  Mailbox mailbox_;
  std::unordered_map<int, ClientState> clients_;
};

pmix_status_t PmixServer::Impl::on_connected(const pmix_proc_t* proc, void*, pmix_info_t*, size_t,
                                             pmix_op_cbfunc_t, void*) {
  if (auto* server = current.load()) server->post_state(proc->rank, ClientState::connected);
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t PmixServer::Impl::on_finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t,
                                             void*) {
  if (auto* server = current.load()) server->post_state(proc->rank, ClientState::finalized);
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t PmixServer::Impl::on_abort(const pmix_proc_t* proc, void*, int status,
                                         const char text[], pmix_proc_t[], size_t, pmix_op_cbfunc_t,
                                         void*) {
  if (auto* server = current.load())
    server->post_abort(proc->rank, status, text == nullptr ? "" : text);
  return PMIX_OPERATION_SUCCEEDED;
}

namespace {

// Clients may register for events and send them: libpmix keeps the list and delivers on this host.
pmix_status_t on_register_events(pmix_status_t*, size_t, const pmix_info_t[], size_t,
                                 pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}
pmix_status_t on_deregister_events(pmix_status_t*, size_t, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}
pmix_status_t on_notify_event(pmix_status_t, const pmix_proc_t*, pmix_data_range_t, pmix_info_t[],
                              size_t, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}

}  // namespace

pmix_server_module_t PmixServer::Impl::make_module() {
  pmix_server_module_t module{};
  module.client_connected2 = &Impl::on_connected;
  module.client_finalized = &Impl::on_finalized;
  module.abort = &Impl::on_abort;
  module.register_events = on_register_events;
  module.deregister_events = on_deregister_events;
  module.notify_event = on_notify_event;
  return module;
}

namespace {

// libpmix would read the whole machine with all of hwloc's plugins (about 10 ms, and one of them
// tries to reach an X server); with a topology given it reads nothing. It is never freed: libpmix
// keeps it.
hwloc_topology_t quick_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  if (hwloc_topology_load(topology) == 0) return topology;
  hwloc_topology_destroy(topology);
  return nullptr;
}

// Above this many ranks on a host their shared data goes through shared memory (ds21): its files
// and locks cost 9 ms at the start, but without them every rank asks the server for every other's,
// and 128 ranks that do so take 1.5 s instead of 0.6.
constexpr std::size_t kRanksByMessage = 32;

// Settings for libpmix and hwloc inside the agent only: ranks get the caller's environment.
void prepare_environment(std::size_t local_ranks) {
  ::setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);
  ::setenv("PMIX_MCA_gds", local_ranks > kRanksByMessage ? "ds21,hash" : "hash", 1);
  ::setenv("PMIX_MCA_psec", "native", 1);  // munge fails where munged does not run
}

}  // namespace

Result<void> PmixServer::Impl::start(std::size_t local_ranks) {
  prepare_environment(local_ranks);
  PmixInfoList info;
  info.add(PMIX_SERVER_TMPDIR, folder_.string());
  info.add(PMIX_SYSTEM_TMPDIR, folder_.string());
  info.add(PMIX_TCP_IF_INCLUDE, std::string("lo"));
  if (auto* topology = quick_topology()) info.add_pointer(PMIX_TOPOLOGY, topology);
  static pmix_server_module_t module = make_module();
  current = this;
  const auto status = library_.PMIx_server_init(&module, info.data(), info.size());
  if (status != PMIX_SUCCESS) return error("cannot start its server", status);
  return {};
}

template <class Call>
Result<void> PmixServer::Impl::wait_for(const std::string& what, int count, Call call) {
  const auto answers = std::make_shared<Answers>(count);
  for (int i = 0; i < count; ++i) {
    auto context = std::make_unique<std::shared_ptr<Answers>>(answers);
    const pmix_status_t status = call(i, &Answers::on_answer, context.get());
    if (status == PMIX_SUCCESS)
      static_cast<void>(context.release());  // on_answer frees it
    else
      answers->answer(status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);
  }
  const auto status = answers->wait();
  if (status != PMIX_SUCCESS) return error(what, status);
  return {};
}

Result<void> PmixServer::Impl::add_maps(const PmixJob& job, PmixInfoList& info) const {
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
  auto status = library_.PMIx_generate_regex(names.c_str(), &node_map);
  if (status == PMIX_SUCCESS) status = library_.PMIx_generate_ppn(ranks.c_str(), &proc_map);
  const std::unique_ptr<char, decltype(&std::free)> free_nodes(node_map, &std::free);
  const std::unique_ptr<char, decltype(&std::free)> free_procs(proc_map, &std::free);
  if (status != PMIX_SUCCESS) return error("cannot describe the hosts", status);
  info.add_regex(PMIX_NODE_MAP, node_map);
  info.add_regex(PMIX_PROC_MAP, proc_map);
  return {};
}

Result<PmixInfoList> PmixServer::Impl::describe(const PmixJob& job) const {
  const auto& here = job.hosts[static_cast<std::size_t>(job.host_index)].ranks;
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
  info.add(PMIX_TMPDIR, folder_.string());
  info.add(PMIX_NSDIR, folder_.string());
  info.add(PMIX_TDIR_RMCLEAN, true);
  HVD_CHECK(add_maps(job, info));
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

Result<void> PmixServer::Impl::register_job(const PmixJob& job) {
  const auto& here = job.hosts[static_cast<std::size_t>(job.host_index)].ranks;
  HVD_TRY(PmixInfoList info, describe(job));
  HVD_CHECK(wait_for("cannot take the job", 1, [&](int, pmix_op_cbfunc_t done, void* context) {
    return library_.PMIx_server_register_nspace(nspace_.c_str(), static_cast<int>(here.size()),
                                                info.data(), info.size(), done, context);
  }));
  return wait_for("cannot take the ranks", static_cast<int>(here.size()),
                  [&](int i, pmix_op_cbfunc_t done, void* context) {
                    pmix_proc_t proc{};
                    nspace_.copy(proc.nspace, PMIX_MAX_NSLEN);
                    proc.rank = static_cast<pmix_rank_t>(here[static_cast<std::size_t>(i)]);
                    return library_.PMIx_server_register_client(&proc, ::geteuid(), ::getegid(),
                                                                nullptr, done, context);
                  });
}

Result<std::vector<std::string>> PmixServer::Impl::environment_of(int rank) const {
  pmix_proc_t proc{};
  nspace_.copy(proc.nspace, PMIX_MAX_NSLEN);
  proc.rank = static_cast<pmix_rank_t>(rank);
  char** environment = nullptr;
  const auto status = library_.PMIx_server_setup_fork(&proc, &environment);
  std::vector<std::string> variables;
  for (char** at = environment; at != nullptr && *at != nullptr; ++at) {
    variables.emplace_back(*at);
    std::free(*at);
  }
  std::free(environment);
  if (status != PMIX_SUCCESS) return tl::unexpected(error("cannot admit a rank", status).error());
  for (const char* variable : kOpenMpiSettings) variables.emplace_back(variable);
  return variables;
}

PmixServer::PmixServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PmixServer::~PmixServer() = default;

Result<std::unique_ptr<PmixServer>> PmixServer::start(const EventLoop& loop,
                                                      const std::string& nspace,
                                                      const std::filesystem::path& folder,
                                                      std::size_t local_ranks, Events events) {
  HVD_TRY(const PmixLibrary library, PmixLibrary::open());
  auto impl = std::make_unique<Impl>(loop, library, nspace, folder, std::move(events));
  HVD_CHECK(impl->start(local_ranks));
  return std::unique_ptr<PmixServer>(new PmixServer(std::move(impl)));
}

Result<void> PmixServer::register_job(const PmixJob& job) {
  return impl_->register_job(job);
}
Result<std::vector<std::string>> PmixServer::environment_of(int rank) const {
  return impl_->environment_of(rank);
}
void PmixServer::drain() {
  impl_->drain();
}
bool PmixServer::left_without_finalize(int rank) const {
  return impl_->left_without_finalize(rank);
}

}  // namespace hvdrun
