// How a session begins: what the environment says of it, the wire-up, and what all ranks do first.
#include "base/process_environment.hpp"
#include "bootstrap/agent_bootstrap.hpp"
#include "common/clock.hpp"
#include "common/variables.h"
#include "session/session.hpp"
#include "transport/transport.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

namespace libhvd {
namespace {

constexpr std::int64_t kLongestTimeoutS = 24 * 60 * 60;

// Ranks that form a generation after the first one take no longer to connect than this many times
// the silence of a host that is lost.
constexpr int kWireupSilences = 2;

// Returns the status page, or an empty object if the launcher's page cannot be used. Error: the
// variable is not valid.
Result<StatusPage> attach_page(const Environment& environment) {
  auto page = StatusPage::attach(environment);
  if (page.ok() || page.error().status == HVD_ERROR_ENVIRONMENT) return page;
  // Without a page only the launcher's view of this rank is lost.
  std::fprintf(stderr, "hvd: continuing without a status page: %s\n", page.error().message.c_str());
  return StatusPage();
}

// Returns the number in a variable that other programs set. A value that is not a number is not the
// user's mistake, so it is treated as unset.
std::int64_t read_foreign_number(const Environment& environment, const char* name,
                                 std::int64_t otherwise) {
  auto number = read_integer(environment, name, 0, INT64_MAX);
  return number.ok() ? number->value_or(otherwise) : otherwise;
}

Result<JobInfo> read_job_info(const Environment& environment) {
  constexpr std::int64_t kMostRestarts = 1'000'000;
  JobInfo read;
  HVD_TRY(const auto restarts, read_integer(environment, HVD_ENV_RESTART_COUNT, 0, kMostRestarts));
  const std::int64_t by_launcher =
      restarts ? *restarts : read_foreign_number(environment, "TORCHELASTIC_RESTART_COUNT", 0);
  // sbatch(1), output environment variables.
  const std::int64_t by_slurm = read_foreign_number(environment, "SLURM_RESTART_COUNT", 0);
  read.restart_count = static_cast<int>(std::min(by_launcher + by_slurm, kMostRestarts));
  const std::int64_t end_time = read_foreign_number(environment, "SLURM_JOB_END_TIME", 0);
  if (end_time > 0) read.end_time = end_time;
  HVD_TRY(read.devices, read_devices(environment));
  read.host = host_name(environment);
  return read;
}

// Returns how long a host may be silent; 0: for ever.
Result<std::chrono::milliseconds> read_host_timeout(const Environment& environment,
                                                    std::chrono::milliseconds otherwise) {
  constexpr std::int64_t kLeastS = 2;  // a bridge sends at least once a second
  HVD_TRY(const auto seconds, read_integer(environment, HVD_ENV_HOST_TIMEOUT, 0, kLongestTimeoutS));
  if (!seconds) return otherwise;
  return std::chrono::milliseconds(
      std::chrono::seconds(*seconds == 0 ? 0 : std::max(*seconds, kLeastS)));
}

// Returns the file of a session for a path that the environment gives to all: "run.json",
// "run.generation-2.json", ….
std::string path_of_session(const std::string& path, std::uint64_t generation) {
  if (generation <= 1) return path;
  std::filesystem::path file(path);
  const std::string name = file.stem().string() + ".generation-" + std::to_string(generation) +
                           file.extension().string();
  return file.replace_filename(name).string();
}

Topology planned_numbers(const RankInfo& info) {
  Topology numbers;
  numbers.rank = info.rank;
  numbers.size = info.size;
  numbers.local_rank = info.local_rank.value_or(0);
  numbers.local_size = info.local_size.value_or(numbers.local_rank + 1);
  numbers.node_rank = info.node_rank.value_or(0);
  numbers.node_count = info.node_count.value_or(1);
  numbers.cross_rank = numbers.node_rank;
  numbers.cross_size = numbers.node_count;
  return numbers;
}

// Checks what cannot be in a job that continues when ranks are lost.
Result<void> check_elastic(const Environment& environment, const StartOptions& wanted) {
  if (wanted.ranks)
    return fail(
        HVD_ERROR_UNSUPPORTED,
        "a list of ranks that start together is not possible in a job that continues when "
        "ranks are lost (hvdrun --min-np): its ranks are those that are left. Use a process "
        "set");
  HVD_TRY(const Transport transport, read_transport(environment));
  if (transport == Transport::mpi)
    return fail(HVD_ERROR_UNSUPPORTED, HVD_ENV_TRANSPORT
                "=mpi: MPI cannot lose a rank. Leave it out, or hvdrun's --min-np");
  return {};
}

// Returns whether a member whose start has failed comes to the next generation.
bool comes_again(const Error& error, MemberLink& link) {
  // An error of the system may come from the end of another rank, whose files are gone. Then the
  // agent says so soon.
  constexpr std::chrono::seconds kWordOnItsWay{1};
  if (link.closed()) return false;
  if (error.status == HVD_ERROR_PEER || error.status == HVD_ERROR_TIMEOUT) return true;
  return link.over() || (error.status == HVD_ERROR_SYSTEM && link.wait_for_over(kWordOnItsWay));
}

}  // namespace

struct Session::Start {
  BootstrapOptions bootstrap;
  JobInfo job;
  TimelineOptions timeline;
  std::optional<Topology> planned;  // of a newcomer
};

Session::Session(const Environment& environment, const ProcessParts& process,
                 std::unique_ptr<Bootstrap> bootstrap, std::optional<GenerationGo> go,
                 Wireup wireup, CarriedOver carried, const Start& start)
    : environment_(environment),
      bootstrap_(std::move(bootstrap)),
      generation_(go                    ? go->generation
                  : process.provisional ? 0
                                        : process.generation),
      link_(process.link),
      go_(std::move(go)),
      topology_(wireup.topology),
      planned_(start.planned),
      page_(std::move(carried.page)),
      communicator_(wireup.segment, topology_.rank, wireup.streams, process.memory),
      timeline_(topology_.node_rank, start.job.host, start.timeline),
      call_trace_(*timeline_.recorder()),
      first_engine_(process.first_engine),
      bridge_(std::move(wireup.bridge)),
      streams_(std::move(wireup.streams)),
      mpi_(wireup.mpi),
      signals_(std::move(carried.signals)),
      job_info_(start.job) {
  if (job_info_.reproducible) communicator_.make_reproducible();
  if (!job_info_.direct_reads) communicator_.refuse_direct_reads();
  watch_waits();
  if (link_ == nullptr) return;
  // A member keeps its GPU, whatever its local rank becomes.
  if (!job_info_.devices.own)
    job_info_.devices.own = process.first_local_rank.value_or(numbers().local_rank);
  page_.set_generation(static_cast<std::uint32_t>(generation_));
  page_.set_commits(process.come.commits);
  if (go_) listen_to_agent();
}

Result<Session::Start> Session::read_start(const Environment& environment,
                                           const StartOptions& wanted,
                                           const ProcessParts& process) {
  Start start;
  start.bootstrap.ranks = wanted.ranks;
  start.bootstrap.starts = process.starts;
  HVD_TRY(const auto seconds,
          read_integer(environment, HVD_ENV_START_TIMEOUT, 1, kLongestTimeoutS));
  if (seconds) start.bootstrap.timeout = std::chrono::seconds(*seconds);
  HVD_TRY(start.job, read_job_info(environment));
  HVD_TRY(start.job.engine, read_engine_settings(environment));
  HVD_TRY(const auto reproducible, read_integer(environment, HVD_ENV_REPRODUCIBLE, 0, 1));
  start.job.reproducible = reproducible == 1;
  HVD_TRY(const auto direct_reads, read_integer(environment, HVD_ENV_DIRECT_READS, 0, 1));
  start.job.direct_reads = direct_reads != 0;
  WireupOptions& wireup = start.job.wireup;
  wireup.timeout = start.bootstrap.timeout / 2;
  HVD_TRY(wireup.silence, read_host_timeout(environment, wireup.silence));
  if (process.link != nullptr) wireup.cancel = process.link->cancel_descriptor();
  HVD_TRY(start.timeline, read_timeline_options(environment));
  if (!process.provisional) return start;
  // A newcomer does nothing with files that belong to the job.
  start.timeline.path.clear();
  start.job.engine.autotune_log.clear();
  HVD_TRY(const RankInfo info, read_rank_info(environment));
  start.planned = planned_numbers(info);
  return start;
}

Result<std::unique_ptr<Session>> Session::open(const Environment& environment,
                                               const StartOptions& wanted,
                                               const ProcessParts& process, CarriedOver carried,
                                               std::shared_ptr<void>& lasting) {
  if (process.link != nullptr) HVD_CHECK(check_elastic(environment, wanted));
  HVD_TRY(const Start start, read_start(environment, wanted, process));
  if (!carried.page) {
    HVD_TRY(carried.page, attach_page(environment));
  }
  if (process.provisional)
    return open_provisional(environment, wanted, process, start, std::move(carried));
  if (process.link != nullptr)
    return open_in_generation(environment, wanted, process, start, std::move(carried));
  // Shows the launcher that this rank waits here for ranks that have not started. Not with some
  // ranks only: the launcher would report the ranks that do not take part as missing.
  if (!wanted.ranks) carried.page.begin_collective("hvd_init", nullptr, monotonic_ns());
  HVD_TRY(auto bootstrap, open_bootstrap(environment, start.bootstrap));
  lasting = bootstrap->lasting();
  HVD_TRY(Wireup wireup, wire_up(*bootstrap, environment, start.job.wireup));
  if (!wanted.ranks) carried.page.end_collective(false, 0, 0);
  std::unique_ptr<Session> session(new Session(environment, process, std::move(bootstrap),
                                               std::nullopt, std::move(wireup), std::move(carried),
                                               start));
  session->some_ranks_ = wanted.ranks.has_value();
  HVD_CHECK(session->begin(wanted, start));
  return session;
}

// Opens a session of this process alone, for what a program does before it comes to the others.
Result<std::unique_ptr<Session>> Session::open_provisional(const Environment& environment,
                                                           const StartOptions& wanted,
                                                           const ProcessParts& process,
                                                           const Start& start,
                                                           CarriedOver carried) {
  auto bootstrap = open_single_bootstrap();
  HVD_TRY(Wireup wireup, wire_up(*bootstrap, environment, start.job.wireup));
  std::unique_ptr<Session> session(new Session(environment, process, std::move(bootstrap),
                                               std::nullopt, std::move(wireup), std::move(carried),
                                               start));
  HVD_CHECK(session->begin(wanted, start));
  return session;
}

// Comes to a generation, and to the next one if it is over before the session is open. At the
// start all of it takes no longer than the start's time. Later the launcher alone decides how long
// the others may take: it ends those that do not come.
Result<std::unique_ptr<Session>> Session::open_in_generation(const Environment& environment,
                                                             const StartOptions& wanted,
                                                             const ProcessParts& process,
                                                             const Start& start,
                                                             CarriedOver carried) {
  MemberLink& link = *process.link;
  // A newcomer comes by hvd_reform, and waits until the others need it.
  const bool waits = process.newcomer;
  const bool at_start = process.come.why == ComeReason::start && !waits;
  const char* const shown = at_start ? "hvd_init" : "hvd_reform";
  const auto timeout = at_start ? start.bootstrap.timeout : std::chrono::seconds(kLongestTimeoutS);
  const Deadline deadline(timeout);
  MemberCome come = process.come;
  while (true) {
    if (!waits) carried.page.begin_collective(shown, nullptr, monotonic_ns());
    const std::chrono::milliseconds left(deadline.poll_ms());
    auto bootstrap =
        AgentBootstrap::open(link, come, {left, std::min(left, start.bootstrap.timeout)});
    if (bootstrap.ok() && *bootstrap == nullptr)
      return fail(HVD_ERROR_REMOVED,
                  "the job does not want this process any more: " + link.why_removed());
    std::uint32_t accused = kNoMember;
    auto session = bootstrap.ok() ? open_wired(environment, wanted, process, start,
                                               std::move(*bootstrap), carried, accused)
                                  : Result<std::unique_ptr<Session>>(bootstrap.error());
    if (session.ok()) return session;
    const bool again = bootstrap.ok() && comes_again(session.error(), link);
    if (!again) {
      static_cast<void>(link.leave());  // the error says more
      return session;
    }
    come.why = ComeReason::failed;
    come.failure = SeenFailure::unconnected;
    come.accused = accused;
    if (link.over()) {  // which has ended the wait for that member, too
      come.failure = SeenFailure::over;
      come.accused = kNoMember;
    }
  }
}

// Opens a session in the generation of the bootstrap. After an error `carried` is what it was, and
// `accused` is the member that this one could not connect to, if that was it.
//
// After the first generation all hosts have been connected before, so a host that cannot be reached
// is found soon.
Result<std::unique_ptr<Session>> Session::open_wired(const Environment& environment,
                                                     const StartOptions& wanted,
                                                     const ProcessParts& process,
                                                     const Start& start,
                                                     std::unique_ptr<AgentBootstrap> bootstrap,
                                                     CarriedOver& carried, std::uint32_t& accused) {
  const GenerationGo generation = bootstrap->generation();
  WireupOptions options = start.job.wireup;
  std::optional<int> unreached;
  options.unreached = &unreached;
  if (generation.generation > 1 && options.silence.count() > 0)
    options.timeout = std::min(options.timeout, kWireupSilences * options.silence);
  auto made = wire_up(*bootstrap, environment, options);
  if (unreached) accused = generation.ranks[static_cast<std::size_t>(*unreached)].member;
  HVD_TRY(Wireup wireup, std::move(made));
  HVD_CHECK(bootstrap->finish());
  carried.page.end_collective(false, 0, 0);
  std::unique_ptr<Session> session(new Session(environment, process, std::move(bootstrap),
                                               generation, std::move(wireup), std::move(carried),
                                               start));
  const Result<void> begun = session->begin(wanted, start);
  if (begun.ok()) return session;
  carried = session->carry_over();
  return begun.error();
}

// Does what all ranks do before the first call of the program.
Result<void> Session::begin(const StartOptions& wanted, const Start& start) {
  const EngineSettings& engine = job_info_.engine;
  if (engine.autotune && !engine.autotune_log.empty() && topology_.rank == 0) {
    HVD_TRY(auto log, AutotuneLog::open(path_of_session(engine.autotune_log, generation_)));
    autotune_log_ = std::move(log);
  }
  if (!start.timeline.path.empty()) {
    HVD_TRY(const auto generation, share_generation(generation_));
    HVD_CHECK(timeline_.start(communicator_, path_of_session(start.timeline.path, generation)));
  }
  return add_first_process_sets(wanted);
}

// Returns the largest generation of the ranks. A rank may have been in fewer sessions than another,
// whose files must not be replaced.
Result<std::uint64_t> Session::share_generation(std::uint64_t own) {
  auto generation = static_cast<std::int64_t>(own);
  HVD_CHECK(communicator_.allreduce(&generation, &generation, 1, HVD_INT64, HVD_MAX,
                                    {.name = "hvd_init"}));
  return static_cast<std::uint64_t>(generation);
}

// Makes the process sets of the start. If ranks want different sets, or one rank's are not valid,
// all ranks return the error before any set is made.
Result<void> Session::add_first_process_sets(const StartOptions& wanted) {
  std::string own;
  for (const std::vector<int>& ranks : wanted.process_sets) own += '{' + encode_ranks(ranks) + '}';
  if (!wanted.fault.empty()) own = '!' + wanted.fault;
  HVD_TRY(const auto sets, exchange_texts(communicator_, own, {.name = "hvd_init"}));
  for (std::size_t rank = 0; rank < sets.size(); ++rank) {
    if (sets[rank].starts_with('!'))
      return fail(HVD_ERROR_INVALID_ARGUMENT, name_of(rank) + ": " + sets[rank].substr(1));
  }
  const auto show = [&](std::size_t rank) {
    return (sets[rank].empty() ? "none" : sets[rank]) + " on " + name_of(rank);
  };
  for (std::size_t rank = 1; rank < sets.size(); ++rank) {
    if (sets[rank] != sets[0])
      return fail(HVD_ERROR_MISMATCH, "the process sets to start with differ: they are " + show(0) +
                                          " and " + show(rank));
  }
  for (const std::vector<int>& ranks : wanted.process_sets) HVD_CHECK(add_process_set(ranks));
  return {};
}

}  // namespace libhvd
