#include "api/meeting.hpp"

#include "api/host_mesh.hpp"
#include "api/introduction.hpp"
#include "api/mpi_mesh.hpp"
#include "api/stream_mesh.hpp"
#include "base/descriptor_limit.hpp"
#include "base/hex.hpp"
#include "base/host_name.hpp"
#include "base/random.hpp"
#include "bootstrap/admission.hpp"
#include "bootstrap/job_key.hpp"
#include "collective/hosts_allreduce.hpp"
#include "collective/rule_between_hosts.hpp"
#include "hvd_contract/environment.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>

#include <unistd.h>

namespace libhvd {
namespace {

constexpr const char* kDefaultDirectory = "/dev/shm";
constexpr std::size_t kJobIdInName = 32;
constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kFilesOfASegment = 8;  // with its bell, and while it is looked for

// random(4): new for each boot of a kernel.
std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

std::string memory_directory(const Environment& environment) {
  const auto directory = environment(HVD_ENV_SHM_DIR);
  return directory && !directory->empty() ? *directory : kDefaultDirectory;
}

// The job's id as part of a file name.
std::string safe_job_id(const Environment& environment) {
  std::string safe;
  for (const char byte : environment(HVD_ENV_JOB_ID).value_or("")) {
    if (std::isalnum(static_cast<unsigned char>(byte)) != 0 && safe.size() < kJobIdInName) {
      safe += byte;
    }
  }
  return safe.empty() ? "job" : safe;
}

// One rank's way through the meeting, a method a round.
class Attendant {
 public:
  Attendant(Bootstrap& bootstrap, const Environment& environment, const MeetingOptions& options)
      : bootstrap_(bootstrap),
        environment_(environment),
        options_(options),
        rank_(bootstrap.info().rank),
        directory_(memory_directory(environment)) {}

  Result<Meeting> attend();

 private:
  Outcome introduce();
  Outcome claim();
  Outcome take_places();
  Outcome agree(const Outcome& own);
  Outcome start_mpi();
  void tell_rule() const;
  Result<Meeting> conclude();

  Outcome prepare(Introduction& own);
  Outcome prepare(Claim& own);
  Outcome lead(Claim& own);
  Result<HostDoor> open_door() const;
  Outcome check_transports() const;
  Outcome check_encryptions() const;
  Outcome open_mpi(Claim& own);
  Outcome check_claims() const;
  Outcome enter();
  void make_room_for_connections() const;
  Outcome join();
  Outcome join_streams();
  std::vector<int> hosts_of_ranks() const;
  std::vector<int> numbers() const;
  Result<JobSecret> secret(const std::string& purpose) const;
  Result<Topology> topology() const;

  std::string path_of(std::size_t rank) const {
    return directory_ + "/" + introductions_[rank].file;
  }
  bool sees(std::size_t rank) const;
  bool leads() const { return leader_ == rank_; }
  bool sees_all() const;
  int host_of(std::size_t rank) const;
  int number(std::size_t rank) const {
    return introductions_[rank].info.number.value_or(static_cast<int>(rank));
  }
  std::string name_of(std::size_t rank) const {
    return "rank " + std::to_string(number(rank)) + " on " + introductions_[rank].host;
  }
  Error blame(std::size_t rank, const Error& error) const {
    return with_context(name_of(rank), error);
  }

  Bootstrap& bootstrap_;
  const Environment& environment_;
  const MeetingOptions& options_;
  int rank_;
  std::string directory_;

  SegmentFile file_;
  std::vector<Introduction> introductions_;
  int leader_ = 0;
  std::vector<Claim> claims_;
  std::optional<HostDoor> door_;          // of a leader, when there are other hosts
  std::optional<HostDoor> streams_door_;  // of every rank then, unless it is over MPI
  std::optional<MpiLibrary> mpi_;
  std::vector<HostEntry> hosts_;
  std::optional<Segment> segment_;
  std::vector<HostSocket> sockets_;
  StreamLanes streams_;
};

// Round 1.
Outcome Attendant::introduce() {
  Introduction own;
  own.info = bootstrap_.info();
  own.host = host_name(environment_);
  own.boot = boot_id();
  own.pid = static_cast<std::uint32_t>(::getpid());
  if (const auto prepared = prepare(own); !prepared.ok()) own.trouble = prepared.error();
  HVD_TRY(const auto blobs, bootstrap_.exchange(encode(own)));
  for (const auto& blob : blobs) {
    HVD_TRY(auto introduction, decode_introduction(blob));
    introductions_.push_back(std::move(introduction));
  }
  for (std::size_t rank = 0; rank < introductions_.size(); ++rank) {
    const Error& trouble = introductions_[rank].trouble;
    if (trouble.status != HVD_OK) return blame(rank, trouble);
  }
  HVD_CHECK(check_transports());
  return check_encryptions();
}

Outcome Attendant::check_transports() const {
  const Transport first = introductions_[0].transport;
  for (std::size_t rank = 1; rank < introductions_.size(); ++rank) {
    const Transport other = introductions_[rank].transport;
    if (other == first) continue;
    return fail(HVD_ERROR_ENVIRONMENT, std::string(HVD_ENV_TRANSPORT) + " is " +
                                           transport_name(first) + " on " + name_of(0) + " and " +
                                           transport_name(other) + " on " + name_of(rank) +
                                           ": give all ranks the same");
  }
  return Done{};
}

Outcome Attendant::check_encryptions() const {
  for (std::size_t rank = 1; rank < introductions_.size(); ++rank) {
    if (introductions_[rank].encrypted == introductions_[0].encrypted) continue;
    return introductions_[0].encrypted ? other_encryption(name_of(0), name_of(rank))
                                       : other_encryption(name_of(rank), name_of(0));
  }
  return Done{};
}

Outcome Attendant::prepare(Introduction& own) {
  HVD_TRY(own.transport, read_transport(environment_));
  HVD_TRY(own.encrypted, read_data_tls(environment_));
  if (own.encrypted && own.transport != Transport::tcp)
    return fail(HVD_ERROR_UNSUPPORTED,
                std::string(HVD_ENV_DATA_TLS "=1 and " HVD_ENV_TRANSPORT "=") +
                    transport_name(own.transport) + ": what goes over MPI cannot be encrypted");
  HVD_TRY(file_, SegmentFile::create(directory_, safe_job_id(environment_)));
  own.file = file_.name().path.substr(directory_.size() + 1);
  own.nonce = file_.name().nonce;
  if (rank_ == 0) {
    HVD_TRY(const auto secret, random_bytes<kSecretBytes>());
    own.secret = to_hex(secret);
  }
  return Done{};
}

bool Attendant::sees(std::size_t rank) const {
  const auto own = static_cast<std::size_t>(rank_);
  return rank == own || (introductions_[rank].boot == introductions_[own].boot &&
                         ::access(path_of(rank).c_str(), F_OK) == 0);
}

// Round 2. The leader makes the segment before the others can look for it.
Outcome Attendant::claim() {
  while (!sees(static_cast<std::size_t>(leader_))) ++leader_;
  Claim own;
  own.leader = leader_;
  if (const auto prepared = prepare(own); !prepared.ok()) own.trouble = prepared.error();
  HVD_TRY(const auto blobs, bootstrap_.exchange(encode(own)));
  for (std::size_t rank = 0; rank < blobs.size(); ++rank) {
    HVD_TRY(auto claim, decode_claim(blobs[rank]));
    if (claim.trouble.status != HVD_OK) return blame(rank, claim.trouble);
    if (claim.leader < 0 || claim.leader >= bootstrap_.info().size)
      return fail(HVD_ERROR_SYSTEM, name_of(rank) + " has told what makes no sense");
    claims_.push_back(std::move(claim));
  }
  return check_claims();
}

bool Attendant::sees_all() const {
  for (std::size_t rank = 0; rank < introductions_.size(); ++rank) {
    if (!sees(rank)) return false;
  }
  return true;
}

Outcome Attendant::prepare(Claim& own) {
  if (leads()) HVD_CHECK(lead(own));
  if (sees_all()) return Done{};
  if (introductions_[0].encrypted) HVD_CHECK(check_encryption(environment_));
  if (introductions_[0].transport == Transport::mpi) return open_mpi(own);
  HVD_TRY(HostDoor door, open_door());
  own.streams = door.addresses();
  streams_door_.emplace(std::move(door));
  return Done{};
}

Outcome Attendant::lead(Claim& own) {
  const int ranks = bootstrap_.info().size;
  HVD_TRY(Segment made,
          Segment::create(std::move(file_),
                          sees_all() ? SegmentShape(ranks, options_.lanes)
                                     : SegmentShape::across_hosts(ranks, options_.lanes)));
  segment_.emplace(std::move(made));
  segment_->set_numbers(numbers());
  if (sees_all()) return Done{};
  HVD_CHECK(segment_->add_bridge(rank_));
  HVD_TRY(HostDoor door, open_door());
  own.addresses = door.addresses();
  door_.emplace(std::move(door));
  return Done{};
}

// What can be known before MPI makes all ranks wait for each other. The ranks of a process set are
// in it already.
Outcome Attendant::open_mpi(Claim& own) {
  HVD_TRY(mpi_, MpiLibrary::open(environment_));
  const RankInfo& info = bootstrap_.info();
  if (!info.number) HVD_CHECK(mpi_->check(info.rank, info.size));
  if (info.number && mpi_->functions().started() == 0)
    return fail(HVD_ERROR_ENVIRONMENT,
                "HVD_TRANSPORT=mpi: all ranks of the job must have started with it, before some of "
                "them do by themselves");
  own.first_tag = mpi_->functions().first_tag();
  return Done{};
}

Result<HostDoor> Attendant::open_door() const {
  return HostDoor::open(environment_(HVD_ENV_INTERFACE).value_or(""), bootstrap_.own_address());
}

// The same answer on all ranks.
Outcome Attendant::check_claims() const {
  for (std::size_t rank = 0; rank < claims_.size(); ++rank) {
    const auto leader = static_cast<std::size_t>(claims_[rank].leader);  // claim() has checked it
    if (leader <= rank && claims_[leader].leader == claims_[rank].leader) continue;
    return fail(HVD_ERROR_UNSUPPORTED,
                name_of(rank) + " sees the shared memory of rank " +
                    std::to_string(number(leader)) +
                    ", which is not seen the other way round. Give all ranks of a host the same "
                    "HVD_SHM_DIR");
  }
  return Done{};
}

int Attendant::host_of(std::size_t rank) const {
  const auto host = std::find_if(hosts_.begin(), hosts_.end(), [&](const HostEntry& entry) {
    return entry.leader == claims_[rank].leader;
  });
  return static_cast<int>(host - hosts_.begin());
}

// Between the rounds: into the segment, and the leaders to each other.
Outcome Attendant::take_places() {
  for (std::size_t rank = 0; rank < claims_.size(); ++rank) {
    if (claims_[rank].leader != static_cast<int>(rank)) continue;
    hosts_.push_back(
        {static_cast<int>(rank), introductions_[rank].host, claims_[rank].addresses, number(rank)});
  }
  HVD_CHECK(enter());
  if (hosts_.size() == 1) return Done{};
  make_room_for_connections();
  if (leads()) HVD_CHECK(join());
  return mpi_ ? Done{} : join_streams();
}

void Attendant::make_room_for_connections() const {
  const StreamPlan plan(hosts_of_ranks());
  const int own_host = host_of(static_cast<std::size_t>(rank_));
  std::size_t to_each_host = leads() ? 1 : 0;
  for (int channel = 0; channel < plan.channels(); ++channel) {
    if (plan.server(channel, own_host) == rank_)
      to_each_host += static_cast<std::size_t>(options_.lanes);
  }
  make_room_for_descriptors(to_each_host * hosts_.size() + Admission::kMostStrangers);
}

Outcome Attendant::enter() {
  const auto leader = static_cast<std::size_t>(leader_);
  if (!leads()) {
    file_.remove_name();
    HVD_TRY(Segment opened,
            Segment::open({path_of(leader), introductions_[leader].nonce}, bootstrap_.info().size));
    segment_.emplace(std::move(opened));
  }
  return segment_->announce(rank_);
}

Outcome Attendant::join() {
  if (!door_) return fail(HVD_ERROR_SYSTEM, "the other hosts came without a word");
  std::vector<RankPlace> places;
  for (std::size_t rank = 0; rank < claims_.size(); ++rank) {
    places.push_back({host_of(rank), introductions_[rank].host, introductions_[rank].pid});
  }
  const int own = host_of(static_cast<std::size_t>(rank_));
  segment_->set_places(places, own);
  const StreamPlan plan(hosts_of_ranks());
  HVD_CHECK(segment_->add_staging(
      HostsAllreduce::staging_bytes(plan.ranks_on(own).size(), plan.channels())));
  HVD_TRY(const JobSecret proven, secret("bridges"));
  HVD_TRY(sockets_, join_hosts(std::move(*door_), hosts_, own, proven, options_.patience));
  return Done{};
}

// Those in the job.
std::vector<int> Attendant::numbers() const {
  std::vector<int> numbers;
  for (std::size_t rank = 0; rank < introductions_.size(); ++rank) numbers.push_back(number(rank));
  return numbers;
}

std::vector<int> Attendant::hosts_of_ranks() const {
  std::vector<int> hosts;
  for (std::size_t rank = 0; rank < claims_.size(); ++rank) hosts.push_back(host_of(rank));
  return hosts;
}

Outcome Attendant::join_streams() {
  if (!streams_door_) return fail(HVD_ERROR_SYSTEM, "the other hosts came without a word");
  std::vector<HostEntry> ranks;
  for (std::size_t rank = 0; rank < claims_.size(); ++rank)
    ranks.push_back(
        {static_cast<int>(rank), introductions_[rank].host, claims_[rank].streams, number(rank)});
  HVD_TRY(const JobSecret proven, secret("streams"));
  HVD_TRY(streams_, libhvd::join_streams(std::move(*streams_door_), ranks, hosts_of_ranks(), rank_,
                                         proven, options_.lanes, options_.patience));
  return Done{};
}

// What rank 0 has drawn for this meeting, which came the bootstrap's way, together with the job's
// key, where there is one: then who listens to the network learns nothing.
Result<JobSecret> Attendant::secret(const std::string& purpose) const {
  HVD_TRY(const auto key, read_job_key(environment_));
  const std::string& drawn = introductions_[0].secret;
  const Digest mixed =
      hmac_sha256(key, {reinterpret_cast<const std::uint8_t*>(drawn.data()), drawn.size()});
  return JobSecret{purpose + " " + to_hex(introductions_[0].nonce),
                   {mixed.begin(), mixed.end()},
                   bootstrap_.info().size,
                   {},
                   introductions_[0].encrypted};
}

// All ranks started, and in one MPI, before any of them waits for the others in it.
Outcome Attendant::start_mpi() {
  const RankInfo& info = bootstrap_.info();
  if (!info.number) {
    HVD_CHECK(agree(mpi_->start(info.rank, info.size)));
    HVD_CHECK(mpi_->join());
  }
  int first_tag = 0;
  for (const Claim& claim : claims_) first_tag = std::max(first_tag, claim.first_tag);
  HVD_TRY(streams_,
          make_mpi_streams(*mpi_, hosts_of_ranks(), numbers(), rank_, options_.lanes, first_tag));
  return Done{};
}

// Round 3, and one more over MPI: what has failed on one rank is an error on all.
Outcome Attendant::agree(const Outcome& own) {
  HVD_TRY(const auto reports,
          bootstrap_.exchange(encode(own.ok() ? Error{HVD_OK, {}} : own.error())));
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const Error error = decode_error(reports[rank]);
    if (error.status != HVD_OK) return blame(rank, error);
  }
  return Done{};
}

// Where launchers do not say which host a rank is on, we know.
Result<Topology> Attendant::topology() const {
  std::vector<RankInfo> infos;
  for (const auto& introduction : introductions_) infos.push_back(introduction.info);
  const bool told = std::all_of(infos.begin(), infos.end(),
                                [](const RankInfo& info) { return info.node_rank.has_value(); });
  for (std::size_t rank = 0; !told && rank < infos.size(); ++rank) {
    infos[rank].node_rank = host_of(rank);
  }
  return make_topology(infos, rank_);
}

// For who wants to know.
void Attendant::tell_rule() const {
  const auto verbose = environment_(HVD_ENV_VERBOSE).value_or("");
  if (rank_ != 0 || hosts_.size() == 1 || verbose.empty() || verbose == "0") return;
  const StreamPlan plan(hosts_of_ranks());
  const std::string way = mpi_                          ? mpi_->functions().library()
                          : introductions_[0].encrypted ? "TCP with TLS"
                                                        : "TCP";
  std::fprintf(stderr, "hvd: %s\n",
               describe_rule(bootstrap_.info().size, plan.hosts(), plan.channels(),
                             segment_->layout().shape().chunk, introductions_[0].transport, way)
                   .c_str());
}

Result<Meeting> Attendant::conclude() {
  segment_->remove_name();
  if (!leads()) HVD_CHECK(segment_->map_staging());
  tell_rule();
  Meeting meeting;
  HVD_TRY(meeting.topology, topology());
  meeting.segment = std::make_shared<Segment>(std::move(*segment_));
  meeting.streams = std::move(streams_);
  meeting.mpi = mpi_;
  if (!sockets_.empty()) {
    HVD_TRY(meeting.bridge, Bridge::start(meeting.segment, std::move(sockets_), options_.silence));
  }
  return meeting;
}

Result<Meeting> Attendant::attend() {
  make_room_for_descriptors(kFilesOfASegment);
  HVD_CHECK(introduce());
  HVD_CHECK(claim());
  HVD_CHECK(agree(take_places()));
  if (mpi_) HVD_CHECK(start_mpi());
  return conclude();
}

Result<Meeting> meet_alone(const RankInfo& info, const Environment& environment, int lanes) {
  HVD_CHECK(read_transport(environment));
  HVD_CHECK(read_data_tls(environment));
  Meeting meeting;
  HVD_TRY(meeting.topology, make_topology(std::span(&info, 1), 0));
  HVD_TRY(Segment segment, Segment::anonymous(SegmentShape(1, lanes)));
  segment.set_numbers({info.number.value_or(info.rank)});
  HVD_CHECK(segment.announce(0));
  meeting.segment = std::make_shared<Segment>(std::move(segment));
  return meeting;
}

}  // namespace

Result<Meeting> meet(Bootstrap& bootstrap, const Environment& environment,
                     const MeetingOptions& options) {
  if (bootstrap.info().size == 1) return meet_alone(bootstrap.info(), environment, options.lanes);
  return Attendant(bootstrap, environment, options).attend();
}

}  // namespace libhvd
