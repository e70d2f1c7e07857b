#include "agent/pmix_server.hpp"

#include "agent/pmix_clients.hpp"
#include "agent/pmix_directives.hpp"
#include "agent/pmix_job.hpp"
#include "agent/pmix_job_info.hpp"
#include "agent/pmix_library.hpp"
#include "agent/pmix_listener.hpp"
#include "agent/pmix_modex.hpp"
#include "agent/pmix_services.hpp"
#include "protocol/pmix_messages.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// Open MPI 4.1 uses a PMIx server that is not its own only if these settings rule out mpirun and
// srun. Otherwise each rank silently becomes "rank 0 of 1". It must not bind, because we did.
constexpr std::array kOpenMpiSettings{"OMPI_MCA_schizo=^orte,slurm",
                                      "OMPI_MCA_hwloc_base_binding_policy=none",
                                      "OMPI_MCA_orte_externally_bound=1"};

// How long a connection to the server may be silent. A client sends its greeting at once, but on a
// crowded machine a process can wait for its turn for seconds.
constexpr std::chrono::seconds kSilenceLimit{10};

// How long libpmix's thread waits for a look at a rank's processes.
constexpr std::chrono::seconds kLookLimit{2};

// libpmix's thread reads a message in a few turns: the socket, the message, its handler.
constexpr int kRoundTrips = 16;

static_assert(kPmixSuccess == PMIX_SUCCESS && kPmixTimeout == PMIX_ERR_TIMEOUT &&
              kPmixNotFound == PMIX_ERR_NOT_FOUND &&
              kPmixLostConnection == PMIX_ERR_LOST_CONNECTION);

// Returns a function that answers a call of libpmix, from any thread. libpmix owns the copy of the
// data until it has read it.
PmixAnswer answer_by(pmix_modex_cbfunc_t callback, void* context) {
  return [callback, context](std::int32_t status, std::string_view data) {
    if (status != PMIX_SUCCESS || data.empty())
      return callback(status, nullptr, 0, context, nullptr, nullptr);
    auto* copy = new std::string(data);
    callback(
        status, copy->data(), copy->size(), context,
        [](void* released) { delete static_cast<std::string*>(released); }, copy);
  };
}

// Returns the ids of this process's threads (proc(5), /proc/self/task).
std::set<std::string> own_threads() {
  std::set<std::string> threads;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/task", error), end; !error && at != end;
       at.increment(error))
    threads.insert(at->path().filename().string());
  return threads;
}

// Returns whether libpmix has started its threads: one that works and, in older versions, one that
// accepts connections. These report success without the second: they take only negative results of
// pthread_create(3) for errors. Clients would then wait forever.
bool has_started_threads(std::string_view version, const std::set<std::string>& before) {
  const auto now = own_threads();
  return std::count_if(now.begin(), now.end(), [&](const auto& thread) {
           return !before.contains(thread);
         }) >= (has_thread_that_accepts(version) ? 2 : 1);
}

// Let clients register for events and send them. libpmix keeps the list and delivers on this host.
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

class PmixServer::Impl {
 public:
  Impl(const EventLoop& loop, PmixLibrary library, std::filesystem::path folder, Events events)
      : library_(library),
        folder_(std::move(folder)),
        events_(std::move(events)),
        mailbox_(loop),
        listener_(
            loop, kSilenceLimit,
            [this](std::uint32_t rank) { return has_second_program(static_cast<int>(rank)); }),
        clients_(loop, listener_,
                 {events_.pid_of, events_.on_warning, [this] { return fences_.longest_wait(); }}),
        fences_(loop, sender()),
        modex_(loop, sender(),
               [this](auto rank, const PmixAnswer& answer) { fetch(rank, answer); }),
        services_(loop, library_, mailbox_, fences_, sender(), events_.on_warning) {}
  ~Impl() { current = nullptr; }

  Result<void> start(const std::string& host, std::size_t local_ranks);
  Result<void> register_job(const PmixJob& job);
  void add_defaults(std::vector<std::string>& environment) const {
    add_defaults_of_pmix(library_, environment);
  }
  Result<std::vector<std::string>> environment_of(int rank) const;
  Result<void> on_frame(const Frame& frame);
  void rank_ended(int rank) { modex_.rank_ended(static_cast<std::uint32_t>(rank)); }
  void drain() { mailbox_.drain(); }
  void settle(std::function<void()> done, int round_trips);
  bool had_clients() const { return clients_.any(); }
  bool left_without_finalize(int rank) const { return clients_.left_without_finalize(rank); }

 private:
  static pmix_server_module_t make_module();
  // libpmix calls these on its thread. They need the static pointer, because before a client is
  // known its callbacks carry no context of ours.
  static inline std::atomic<Impl*> current{nullptr};
  static pmix_status_t on_connected(const pmix_proc_t* proc, void*, pmix_info_t*, size_t,
                                    pmix_op_cbfunc_t, void*);
  static pmix_status_t on_finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t, void*);
  static pmix_status_t on_abort(const pmix_proc_t* proc, void*, int status, const char text[],
                                pmix_proc_t[], size_t, pmix_op_cbfunc_t, void*);
  static pmix_status_t on_fence(const pmix_proc_t procs[], size_t count, const pmix_info_t info[],
                                size_t info_count, char* data, size_t size,
                                pmix_modex_cbfunc_t done, void* context);
  static pmix_status_t on_direct_modex(const pmix_proc_t* proc, const pmix_info_t info[],
                                       size_t info_count, pmix_modex_cbfunc_t done, void* context);
  static void on_fetched(pmix_status_t status, char* data, size_t size, void* context);
  void post_abort(pmix_rank_t rank, int code, std::string text) {
    mailbox_.post([this, rank, code, text = std::move(text)]() mutable {
      events_.on_abort(static_cast<int>(rank), code, std::move(text));
    });
  }

  Result<void> error(const std::string& what, pmix_status_t status) const {
    return fail(fmt::format("PMIx {}: {}", what, library_.PMIx_Error_string(status)));
  }
  bool has_second_program(int rank);
  void fetch(std::optional<std::uint32_t> rank, PmixAnswer answer);
  PmixSend sender();
  pmix_proc_t proc_of(pmix_rank_t rank) const;

  PmixLibrary library_;
  std::string nspace_;  // set before libpmix knows it, so before any client can call
  std::filesystem::path folder_;
  Events events_;
  Mailbox mailbox_;
  PmixListener listener_;
  PmixClients clients_;
  PmixFences fences_;
  PmixModex modex_;
  PmixServices services_;
};

pmix_status_t PmixServer::Impl::on_connected(const pmix_proc_t* proc, void*, pmix_info_t*, size_t,
                                             pmix_op_cbfunc_t, void*) {
  auto* server = current.load();
  if (server != nullptr)
    server->mailbox_.post(
        [server, rank = static_cast<int>(proc->rank)] { server->clients_.connected(rank); });
  return PMIX_OPERATION_SUCCEEDED;
}

// The thread that accepts connections waits for the loop's answer.
bool PmixServer::Impl::has_second_program(int rank) {
  auto looked = std::make_shared<std::promise<bool>>();
  mailbox_.post([this, rank, looked] { looked->set_value(clients_.has_second_program(rank)); });
  auto found = looked->get_future();
  return found.wait_for(kLookLimit) == std::future_status::ready && found.get();
}

pmix_status_t PmixServer::Impl::on_finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t,
                                             void*) {
  auto* server = current.load();
  if (server == nullptr) return PMIX_OPERATION_SUCCEEDED;
  server->mailbox_.post(
      [server, rank = static_cast<int>(proc->rank)] { server->clients_.finalized(rank); });
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t PmixServer::Impl::on_abort(const pmix_proc_t* proc, void*, int status,
                                         const char text[], pmix_proc_t[], size_t, pmix_op_cbfunc_t,
                                         void*) {
  if (auto* server = current.load())
    server->post_abort(proc->rank, status, text == nullptr ? "" : text);
  return PMIX_OPERATION_SUCCEEDED;
}

// Frees `data`: libpmix hands it out and keeps no pointer to it. That was seen in 4.2 and 5.0;
// pmix_server.h says otherwise of all data that servers are given.
pmix_status_t PmixServer::Impl::on_fence(const pmix_proc_t procs[], size_t count,
                                         const pmix_info_t info[], size_t info_count, char* data,
                                         size_t size, pmix_modex_cbfunc_t done, void* context) {
  const std::shared_ptr<char> owned(data, &std::free);
  auto* server = current.load();
  if (server == nullptr) return PMIX_ERR_UNREACH;
  auto ranks = ranks_of(procs, count, server->nspace_);
  if (!ranks) return PMIX_ERR_NOT_SUPPORTED;
  server->mailbox_.post(
      [server, owned, size, ranks = std::move(*ranks), status = local_status_of(info, info_count),
       timeout = timeout_of(info, info_count), answer = answer_by(done, context)] {
        server->fences_.join({ranks, status, {owned.get(), size}, timeout, answer});
      });
  return PMIX_SUCCESS;
}

pmix_status_t PmixServer::Impl::on_direct_modex(const pmix_proc_t* proc, const pmix_info_t info[],
                                                size_t info_count, pmix_modex_cbfunc_t done,
                                                void* context) {
  auto* server = current.load();
  // Returned, because after an error through the callback libpmix would wait until the other job is
  // registered.
  if (server == nullptr || server->nspace_ != proc->nspace) return PMIX_ERR_NOT_FOUND;
  server->mailbox_.post(
      [server, rank = proc->rank, timeout = timeout_of(info, info_count),
       answer = answer_by(done, context)] { server->modex_.ask(rank, timeout, answer); });
  return PMIX_SUCCESS;
}

// Answers a fetch(). `context` is a new PmixAnswer, freed here.
void PmixServer::Impl::on_fetched(pmix_status_t status, char* data, size_t size, void* context) {
  const std::unique_ptr<PmixAnswer> answer(static_cast<PmixAnswer*>(context));
  if (auto* server = current.load())
    server->mailbox_.post([answer = std::move(*answer), status, bytes = std::string(data, size)] {
      answer(status, bytes);
    });
}

pmix_server_module_t PmixServer::Impl::make_module() {
  pmix_server_module_t module{};
  module.client_connected2 = &Impl::on_connected;
  module.client_finalized = &Impl::on_finalized;
  module.abort = &Impl::on_abort;
  module.fence_nb = &Impl::on_fence;
  module.direct_modex = &Impl::on_direct_modex;
  module.register_events = on_register_events;
  module.deregister_events = on_deregister_events;
  module.notify_event = on_notify_event;
  PmixServices::add_to(module);
  return module;
}

Result<void> PmixServer::Impl::start(const std::string& host, std::size_t local_ranks) {
  prepare_pmix_environment(library_, local_ranks);
  PmixInfoList info;
  // By itself libpmix takes the kernel's name without its domain, and version 5 finds no ranks of
  // this host if the job has the whole name.
  info.add(PMIX_HOSTNAME, host);
  info.add(PMIX_SERVER_TMPDIR, folder_.string());
  info.add(PMIX_SYSTEM_TMPDIR, folder_.string());
  info.add(PMIX_TCP_IF_INCLUDE, std::string("lo"));
  if (auto* topology = quick_topology()) info.add_pointer(PMIX_TOPOLOGY, topology);
  static pmix_server_module_t module = make_module();
  current = this;
  const auto before = own_threads();
  const auto status = library_.PMIx_server_init(&module, info.data(), info.size());
  if (status != PMIX_SUCCESS) return error("cannot start its server", status);
  if (!has_started_threads(library_.PMIx_Get_version(), before))
    return fail_errno("PMIx cannot start the thread that accepts connections", EAGAIN);
  return {};
}

pmix_proc_t PmixServer::Impl::proc_of(pmix_rank_t rank) const {
  pmix_proc_t proc{};
  nspace_.copy(proc.nspace, PMIX_MAX_NSLEN);
  proc.rank = rank;
  return proc;
}

Result<void> PmixServer::Impl::register_job(const PmixJob& job) {
  const auto& here = job.local_ranks();
  nspace_ = job.nspace;
  fences_.set_job(job);
  modex_.set_job(job);
  services_.set_job(job);
  clients_.set_job(job);
  HVD_TRY(PmixInfoList info, describe_job(library_, job, folder_));
  const auto job_taken = wait_for_pmix(1, [&](int, pmix_op_cbfunc_t done, void* context) {
    return library_.PMIx_server_register_nspace(nspace_.c_str(), static_cast<int>(here.size()),
                                                info.data(), info.size(), done, context);
  });
  if (job_taken != PMIX_SUCCESS) return error("cannot take the job", job_taken);
  const auto ranks_taken = wait_for_pmix(
      static_cast<int>(here.size()), [&](int i, pmix_op_cbfunc_t done, void* context) {
        const auto proc = proc_of(static_cast<pmix_rank_t>(here[static_cast<std::size_t>(i)]));
        return library_.PMIx_server_register_client(&proc, ::geteuid(), ::getegid(), nullptr, done,
                                                    context);
      });
  if (ranks_taken != PMIX_SUCCESS) return error("cannot take the ranks", ranks_taken);
  return {};
}

Result<std::vector<std::string>> PmixServer::Impl::environment_of(int rank) const {
  const auto proc = proc_of(static_cast<pmix_rank_t>(rank));
  char** environment = nullptr;
  const auto status = library_.PMIx_server_setup_fork(&proc, &environment);
  std::vector<std::string> variables;
  for (char** at = environment; at != nullptr && *at != nullptr; ++at) {
    variables.emplace_back(*at);
    std::free(*at);
  }
  std::free(environment);
  if (status != PMIX_SUCCESS) return error("cannot admit a rank", status).error();
  for (const char* variable : kOpenMpiSettings) variables.emplace_back(variable);
  return variables;
}

PmixSend PmixServer::Impl::sender() {
  return [this](FrameType type, std::uint32_t destination, std::string_view payload) {
    if (payload.size() <= kMaxPayload) return events_.send(type, destination, payload);
    events_.on_error(
        {fmt::format("what ranks of one host put is {} bytes, and hvdrun carries at most "
                     "{} between hosts: let them put less",
                     payload.size(), kMaxPayload)});
  };
}

// Asks libpmix for the data of a local rank; without a rank, for the data of the job.
void PmixServer::Impl::fetch(std::optional<std::uint32_t> rank, PmixAnswer answer) {
  const auto proc = proc_of(rank.value_or(PMIX_RANK_WILDCARD));
  auto context = std::make_unique<PmixAnswer>(std::move(answer));
  const auto status = library_.PMIx_server_dmodex_request(&proc, &Impl::on_fetched, context.get());
  if (status == PMIX_SUCCESS)
    static_cast<void>(context.release());  // on_fetched frees it
  else
    (*context)(status, {});
}

// Waits for several requests, one after the other. libpmix has no call that reports that its
// sockets have been read, but its thread alternates between them and our requests.
void PmixServer::Impl::settle(std::function<void()> done, int round_trips) {
  if (round_trips == 0) return done();
  fetch(std::nullopt, [this, done = std::move(done), round_trips](std::int32_t, std::string_view) {
    settle(done, round_trips - 1);
  });
}

Result<void> PmixServer::Impl::on_frame(const Frame& frame) {
  switch (frame.type) {
    case FrameType::fence_result:
      return fences_.on_result(frame.payload);
    case FrameType::names_answer:
      return services_.on_names_answer(frame.payload);
    case FrameType::modex_request:
      return modex_.on_request(frame.payload);
    case FrameType::modex_answer:
      return modex_.on_answer(frame.payload);
    default:
      return fail(fmt::format("a frame of type {} is not for the PMIx server",
                              static_cast<int>(frame.type)));
  }
}

PmixServer::PmixServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PmixServer::~PmixServer() = default;

Result<std::unique_ptr<PmixServer>> PmixServer::start(const EventLoop& loop,
                                                      const std::filesystem::path& folder,
                                                      const std::string& host,
                                                      std::size_t local_ranks, Events events) {
  HVD_TRY(const PmixLibrary library, PmixLibrary::open());
  auto impl = std::make_unique<Impl>(loop, library, folder, std::move(events));
  HVD_CHECK(impl->start(host, local_ranks));
  return std::unique_ptr<PmixServer>(new PmixServer(std::move(impl)));
}

Result<void> PmixServer::register_job(const PmixJob& job) {
  return impl_->register_job(job);
}
void PmixServer::add_defaults(std::vector<std::string>& environment) const {
  impl_->add_defaults(environment);
}
Result<std::vector<std::string>> PmixServer::environment_of(int rank) const {
  return impl_->environment_of(rank);
}
Result<void> PmixServer::on_frame(const Frame& frame) {
  return impl_->on_frame(frame);
}
void PmixServer::rank_ended(int rank) {
  impl_->rank_ended(rank);
}
void PmixServer::drain() {
  impl_->drain();
}
void PmixServer::settle(std::function<void()> done) {
  impl_->settle(std::move(done), kRoundTrips);
}
bool PmixServer::had_clients() const {
  return impl_->had_clients();
}

bool PmixServer::left_without_finalize(int rank) const {
  return impl_->left_without_finalize(rank);
}

}  // namespace hvdrun
