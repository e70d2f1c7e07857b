#include "bootstrap/wireup.hpp"

#include "base/process_environment.hpp"
#include "bootstrap/authenticated_acceptor.hpp"
#include "bootstrap/job_secret.hpp"
#include "bootstrap/mesh.hpp"
#include "bootstrap/stream_mesh.hpp"
#include "bootstrap/wireup_messages.hpp"
#include "collective/hosts_allreduce.hpp"
#include "collective/rule_between_hosts.hpp"
#include "common/descriptor_limit.hpp"
#include "common/text.hpp"
#include "common/variables.h"
#include "transport/transport.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace libhvd {
namespace {

constexpr const char* kDefaultDirectory = "/dev/shm";
constexpr std::size_t kJobIdInName = 32;
constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kFilesOfSegment = 8;  // open at a time, with the doorbell

// Returns what differs between hosts: the running kernel's id, and NCCL_HOSTID. That variable can
// only split a host: memory is not shared between kernels, whatever it says.
std::string host_id(const Environment& environment) {
  return boot_id() + '/' + environment(HVD_ENV_NCCL_HOSTID).value_or("");
}

std::string memory_directory(const Environment& environment) {
  const auto directory = environment(HVD_ENV_SHM_DIR);
  return directory && !directory->empty() ? *directory : kDefaultDirectory;
}

// Returns the job's id as part of a file name.
std::string safe_job_id(const Environment& environment) {
  std::string safe;
  for (const char byte : environment(HVD_ENV_JOB_ID).value_or("")) {
    if (std::isalnum(static_cast<unsigned char>(byte)) != 0 && safe.size() < kJobIdInName) {
      safe += byte;
    }
  }
  return safe.empty() ? "job" : safe;
}

// The wire-up of one rank, with a method for each round.
class WireupRank {
 public:
  WireupRank(Bootstrap& bootstrap, const Environment& environment, const WireupOptions& options)
      : bootstrap_(bootstrap),
        environment_(environment),
        options_(options),
        rank_(bootstrap.info().rank),
        directory_(memory_directory(environment)) {}

  Result<Wireup> run();

 private:
  Result<void> exchange_rank_records();
  Result<void> exchange_endpoint_records();
  Result<void> enter_and_connect();
  Result<void> agree(const Result<void>& own);
  Result<void> start_mpi();
  void print_rule() const;
  Result<Wireup> finish();

  Result<void> prepare(RankRecord& own);
  Result<void> prepare(EndpointRecord& own);
  Result<void> create_segment(EndpointRecord& own);
  Result<HostListener> open_listener() const;
  Result<void> check_transports() const;
  Result<void> check_encryptions() const;
  Result<void> open_mpi(EndpointRecord& own);
  Result<void> check_endpoints() const;
  Result<void> map_segment();
  void make_room_for_connections() const;
  Result<void> connect_bridges();
  Result<void> connect_streams();
  std::vector<int> hosts_of_ranks() const;
  std::vector<int> numbers() const;
  Deadline deadline() const { return Deadline(options_.timeout, options_.cancel); }
  Result<JobSecret> secret(const std::string& purpose) const;
  Result<Topology> topology() const;

  std::string path_of(std::size_t rank) const {
    return directory_ + "/" + rank_records_[rank].file;
  }
  // Returns whether the rank is on this host.
  bool sees(std::size_t rank) const;
  bool leads() const { return leader_ == rank_; }
  bool sees_all() const;
  int host_of(std::size_t rank) const;
  int number(std::size_t rank) const {
    return rank_records_[rank].info.number.value_or(static_cast<int>(rank));
  }
  std::string name_of(std::size_t rank) const {
    return "rank " + std::to_string(number(rank)) + " on " + rank_records_[rank].host;
  }
  // Prefixes the error with the rank that it is from.
  Error blame(std::size_t rank, const Error& error) const {
    return with_context(name_of(rank), error);
  }

  Bootstrap& bootstrap_;
  const Environment& environment_;
  const WireupOptions& options_;
  int rank_;
  std::string directory_;

  SegmentFile file_;
  std::vector<RankRecord> rank_records_;
  int leader_ = 0;
  std::vector<EndpointRecord> endpoint_records_;
  std::optional<HostListener> host_listener_;     // a leader's, if there are other hosts
  std::optional<HostListener> streams_listener_;  // every rank's then, except over MPI
  std::optional<MpiLibrary> mpi_;
  std::vector<HostEntry> hosts_;
  std::optional<Segment> segment_;
  std::vector<HostSocket> sockets_;
  StreamLanes streams_;
};

// Round 1: all ranks learn each other's records, and check that they fit together.
Result<void> WireupRank::exchange_rank_records() {
  RankRecord own;
  own.info = bootstrap_.info();
  own.host = host_name(environment_);
  own.host_id = host_id(environment_);
  own.pid = static_cast<std::uint32_t>(::getpid());
  if (const auto prepared = prepare(own); !prepared.ok()) own.error = prepared.error();
  HVD_TRY(const auto blobs, bootstrap_.exchange(encode(own)));
  for (const auto& blob : blobs) {
    HVD_TRY(auto rank_record, decode_rank_record(blob));
    rank_records_.push_back(std::move(rank_record));
  }
  for (std::size_t rank = 0; rank < rank_records_.size(); ++rank) {
    const Error& error = rank_records_[rank].error;
    if (error.status != HVD_OK) return blame(rank, error);
  }
  HVD_CHECK(check_transports());
  return check_encryptions();
}

Result<void> WireupRank::check_transports() const {
  const Transport first = rank_records_[0].transport;
  for (std::size_t rank = 1; rank < rank_records_.size(); ++rank) {
    const Transport other = rank_records_[rank].transport;
    if (other == first) continue;
    return fail(HVD_ERROR_ENVIRONMENT, std::string(HVD_ENV_TRANSPORT) + " is " +
                                           transport_name(first) + " on " + name_of(0) + " and " +
                                           transport_name(other) + " on " + name_of(rank) +
                                           ": give all ranks the same");
  }
  return {};
}

Result<void> WireupRank::check_encryptions() const {
  for (std::size_t rank = 1; rank < rank_records_.size(); ++rank) {
    if (rank_records_[rank].encrypted == rank_records_[0].encrypted) continue;
    return rank_records_[0].encrypted ? other_encryption(name_of(0), name_of(rank))
                                      : other_encryption(name_of(rank), name_of(0));
  }
  return {};
}

Result<void> WireupRank::prepare(RankRecord& own) {
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
  return {};
}

bool WireupRank::sees(std::size_t rank) const {
  const auto own = static_cast<std::size_t>(rank_);
  return rank == own || (rank_records_[rank].host_id == rank_records_[own].host_id &&
                         ::access(path_of(rank).c_str(), F_OK) == 0);
}

// Round 2: finds this rank's leader, and exchanges where ranks listen. Before that exchange the
// leader creates the segment, so the others find it afterwards.
Result<void> WireupRank::exchange_endpoint_records() {
  while (!sees(static_cast<std::size_t>(leader_))) ++leader_;
  EndpointRecord own;
  own.leader = leader_;
  if (const auto prepared = prepare(own); !prepared.ok()) own.error = prepared.error();
  HVD_TRY(const auto blobs, bootstrap_.exchange(encode(own)));
  for (std::size_t rank = 0; rank < blobs.size(); ++rank) {
    HVD_TRY(auto endpoint_record, decode_endpoint_record(blobs[rank]));
    if (endpoint_record.error.status != HVD_OK) return blame(rank, endpoint_record.error);
    if (endpoint_record.leader < 0 || endpoint_record.leader >= bootstrap_.info().size)
      return fail(HVD_ERROR_SYSTEM, name_of(rank) + " has sent a malformed endpoint record");
    endpoint_records_.push_back(std::move(endpoint_record));
  }
  return check_endpoints();
}

bool WireupRank::sees_all() const {
  for (std::size_t rank = 0; rank < rank_records_.size(); ++rank) {
    if (!sees(rank)) return false;
  }
  return true;
}

Result<void> WireupRank::prepare(EndpointRecord& own) {
  if (leads()) HVD_CHECK(create_segment(own));
  if (sees_all()) return {};
  if (rank_records_[0].encrypted) HVD_CHECK(check_encryption(environment_));
  if (rank_records_[0].transport == Transport::mpi) return open_mpi(own);
  HVD_TRY(HostListener host_listener, open_listener());
  own.streams = host_listener.addresses();
  streams_listener_.emplace(std::move(host_listener));
  return {};
}

Result<void> WireupRank::create_segment(EndpointRecord& own) {
  const int ranks = bootstrap_.info().size;
  HVD_TRY(Segment made,
          Segment::create(std::move(file_),
                          sees_all() ? SegmentShape(ranks, options_.lanes)
                                     : SegmentShape::across_hosts(ranks, options_.lanes)));
  segment_.emplace(std::move(made));
  segment_->set_numbers(numbers());
  if (sees_all()) return {};
  HVD_CHECK(segment_->add_bridge(rank_));
  HVD_TRY(HostListener host_listener, open_listener());
  own.addresses = host_listener.addresses();
  host_listener_.emplace(std::move(host_listener));
  return {};
}

// Opens MPI and checks what is possible before MPI makes all ranks wait for each other. The ranks
// of a process set have started MPI already.
Result<void> WireupRank::open_mpi(EndpointRecord& own) {
  HVD_TRY(mpi_, MpiLibrary::open(environment_));
  const RankInfo& info = bootstrap_.info();
  if (!info.number) HVD_CHECK(mpi_->check(info.rank, info.size));
  if (info.number && mpi_->functions().started() == 0)
    return fail(HVD_ERROR_ENVIRONMENT,
                "HVD_TRANSPORT=mpi: all ranks of the job must have started with it, before some of "
                "them do by themselves");
  own.first_tag = mpi_->functions().first_tag();
  return {};
}

Result<HostListener> WireupRank::open_listener() const {
  return HostListener::open(environment_(HVD_ENV_INTERFACE).value_or(""), bootstrap_.own_address());
}

// Checks that ranks agree on who sees whom. Returns the same on all ranks.
Result<void> WireupRank::check_endpoints() const {
  for (std::size_t rank = 0; rank < endpoint_records_.size(); ++rank) {
    // exchange_endpoint_records() has checked the range.
    const auto leader = static_cast<std::size_t>(endpoint_records_[rank].leader);
    if (leader <= rank && endpoint_records_[leader].leader == endpoint_records_[rank].leader)
      continue;
    return fail(HVD_ERROR_UNSUPPORTED,
                name_of(rank) + " sees the shared memory of rank " +
                    std::to_string(number(leader)) +
                    ", which is not seen the other way round. Give all ranks of a host the same "
                    "HVD_SHM_DIR");
  }
  return {};
}

int WireupRank::host_of(std::size_t rank) const {
  const auto host = std::find_if(hosts_.begin(), hosts_.end(), [&](const HostEntry& entry) {
    return entry.leader == endpoint_records_[rank].leader;
  });
  return static_cast<int>(host - hosts_.begin());
}

// Between the rounds: maps the segment, and connects this rank to other hosts.
Result<void> WireupRank::enter_and_connect() {
  for (std::size_t rank = 0; rank < endpoint_records_.size(); ++rank) {
    if (endpoint_records_[rank].leader != static_cast<int>(rank)) continue;
    hosts_.push_back({static_cast<int>(rank), rank_records_[rank].host,
                      endpoint_records_[rank].addresses, number(rank)});
  }
  HVD_CHECK(map_segment());
  if (hosts_.size() == 1) return {};
  make_room_for_connections();
  if (leads()) HVD_CHECK(connect_bridges());
  return mpi_ ? Result<void>() : connect_streams();
}

void WireupRank::make_room_for_connections() const {
  const StreamPlan plan(hosts_of_ranks());
  const int own_host = host_of(static_cast<std::size_t>(rank_));
  std::size_t to_each_host = leads() ? 1 : 0;
  for (int channel = 0; channel < plan.channels(); ++channel) {
    if (plan.server(channel, own_host) == rank_)
      to_each_host += static_cast<std::size_t>(options_.lanes);
  }
  make_room_for_descriptors(to_each_host * hosts_.size() + Acceptor::kMostPending);
}

Result<void> WireupRank::map_segment() {
  const auto leader = static_cast<std::size_t>(leader_);
  if (!leads()) {
    file_.remove_name();
    HVD_TRY(Segment opened,
            Segment::open({path_of(leader), rank_records_[leader].nonce}, bootstrap_.info().size));
    segment_.emplace(std::move(opened));
  }
  return segment_->announce(rank_);
}

Result<void> WireupRank::connect_bridges() {
  if (!host_listener_)
    return fail(HVD_ERROR_SYSTEM, "this rank listens for no connections from other hosts");
  std::vector<RankLocation> places;
  for (std::size_t rank = 0; rank < endpoint_records_.size(); ++rank) {
    places.push_back({host_of(rank), rank_records_[rank].host, rank_records_[rank].pid});
  }
  const int own = host_of(static_cast<std::size_t>(rank_));
  segment_->set_places(places, own);
  const StreamPlan plan(hosts_of_ranks());
  HVD_CHECK(segment_->add_staging(
      HostsAllreduce::staging_bytes(plan.ranks_on(own).size(), plan.channels())));
  HVD_TRY(const JobSecret proven, secret("bridges"));
  HVD_TRY(sockets_, join_hosts(std::move(*host_listener_), hosts_, own, proven, deadline(),
                               options_.unreached));
  return {};
}

// Returns what messages call the ranks: their numbers in the job.
std::vector<int> WireupRank::numbers() const {
  std::vector<int> numbers;
  for (std::size_t rank = 0; rank < rank_records_.size(); ++rank) numbers.push_back(number(rank));
  return numbers;
}

std::vector<int> WireupRank::hosts_of_ranks() const {
  std::vector<int> hosts;
  for (std::size_t rank = 0; rank < endpoint_records_.size(); ++rank)
    hosts.push_back(host_of(rank));
  return hosts;
}

Result<void> WireupRank::connect_streams() {
  if (!streams_listener_)
    return fail(HVD_ERROR_SYSTEM, "this rank listens for no connections from other hosts");
  std::vector<HostEntry> ranks;
  for (std::size_t rank = 0; rank < endpoint_records_.size(); ++rank)
    ranks.push_back({static_cast<int>(rank), rank_records_[rank].host,
                     endpoint_records_[rank].streams, number(rank)});
  HVD_TRY(const JobSecret proven, secret("streams"));
  HVD_TRY(streams_, join_streams(std::move(*streams_listener_), ranks, hosts_of_ranks(), rank_,
                                 proven, options_.lanes, deadline(), options_.unreached));
  return {};
}

// Returns the secret of connections for one purpose. It mixes random bytes of rank 0, which came
// over the bootstrap, with the job's key. With a key, an eavesdropper on the network cannot
// compute it.
Result<JobSecret> WireupRank::secret(const std::string& purpose) const {
  HVD_TRY(const auto key, read_job_key(environment_));
  const std::string& drawn = rank_records_[0].secret;
  const Digest mixed =
      hmac_sha256(key, {reinterpret_cast<const std::uint8_t*>(drawn.data()), drawn.size()});
  return JobSecret{purpose + " " + to_hex(rank_records_[0].nonce),
                   {mixed.begin(), mixed.end()},
                   bootstrap_.info().size,
                   {},
                   rank_records_[0].encrypted};
}

// Starts MPI and makes the streams. All ranks agree that MPI has started everywhere before any of
// them waits for others in it.
Result<void> WireupRank::start_mpi() {
  const RankInfo& info = bootstrap_.info();
  if (!info.number) {
    HVD_CHECK(agree(mpi_->start(info.rank, info.size)));
    HVD_CHECK(mpi_->join());
  }
  int first_tag = 0;
  for (const EndpointRecord& endpoint_record : endpoint_records_)
    first_tag = std::max(first_tag, endpoint_record.first_tag);
  HVD_TRY(streams_,
          make_mpi_streams(*mpi_, hosts_of_ranks(), numbers(), rank_, options_.lanes, first_tag));
  return {};
}

// Round 3, and one more with MPI: an error of one rank becomes an error of all.
Result<void> WireupRank::agree(const Result<void>& own) {
  HVD_TRY(const auto reports,
          bootstrap_.exchange(encode(own.ok() ? Error{HVD_OK, {}} : own.error())));
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const Error error = decode_error(reports[rank]);
    if (error.status != HVD_OK) return blame(rank, error);
  }
  return {};
}

// Uses the hosts that the wire-up has found if the launcher did not say which host each rank is on.
Result<Topology> WireupRank::topology() const {
  std::vector<RankInfo> infos;
  for (const auto& rank_record : rank_records_) infos.push_back(rank_record.info);
  const bool is_known = std::all_of(
      infos.begin(), infos.end(), [](const RankInfo& info) { return info.node_rank.has_value(); });
  for (std::size_t rank = 0; !is_known && rank < infos.size(); ++rank) {
    infos[rank].node_rank = host_of(rank);
  }
  return make_topology(infos, rank_);
}

// Prints the rules of allreduce between hosts on rank 0 if HVD_VERBOSE is set.
void WireupRank::print_rule() const {
  const auto verbose = environment_(HVD_ENV_VERBOSE).value_or("");
  if (rank_ != 0 || hosts_.size() == 1 || verbose.empty() || verbose == "0") return;
  const StreamPlan plan(hosts_of_ranks());
  const std::string over = mpi_                         ? mpi_->functions().library()
                           : rank_records_[0].encrypted ? "TCP with TLS"
                                                        : "TCP";
  std::fprintf(stderr, "hvd: %s\n",
               describe_rule(bootstrap_.info().size, plan.hosts(), plan.channels(),
                             segment_->layout().shape().chunk, over)
                   .c_str());
}

Result<Wireup> WireupRank::finish() {
  segment_->remove_name();
  if (!leads()) HVD_CHECK(segment_->map_staging());
  print_rule();
  Wireup wireup;
  HVD_TRY(wireup.topology, topology());
  wireup.segment = std::make_shared<Segment>(std::move(*segment_));
  wireup.segment->set_job(options_.job, options_.job_ranks);
  wireup.streams = std::move(streams_);
  wireup.mpi = mpi_;
  if (!sockets_.empty()) {
    HVD_TRY(wireup.bridge, Bridge::start(wireup.segment, std::move(sockets_), options_.silence));
  }
  return wireup;
}

Result<Wireup> WireupRank::run() {
  make_room_for_descriptors(kFilesOfSegment);
  HVD_CHECK(exchange_rank_records());
  HVD_CHECK(exchange_endpoint_records());
  HVD_CHECK(agree(enter_and_connect()));
  if (mpi_) HVD_CHECK(start_mpi());
  return finish();
}

// Makes the wire-up of a job of one rank.
Result<Wireup> wire_up_alone(const RankInfo& info, const Environment& environment, int lanes) {
  HVD_CHECK(read_transport(environment));
  HVD_CHECK(read_data_tls(environment));
  Wireup wireup;
  HVD_TRY(wireup.topology, make_topology(std::span(&info, 1), 0));
  HVD_TRY(Segment segment, Segment::anonymous(SegmentShape(1, lanes)));
  segment.set_numbers({info.number.value_or(info.rank)});
  HVD_CHECK(segment.announce(0));
  wireup.segment = std::make_shared<Segment>(std::move(segment));
  return wireup;
}

}  // namespace

Result<Wireup> wire_up(Bootstrap& bootstrap, const Environment& environment,
                       const WireupOptions& options) {
  if (bootstrap.info().size == 1)
    return wire_up_alone(bootstrap.info(), environment, options.lanes);
  return or_cancelled(WireupRank(bootstrap, environment, options).run(), options.cancel);
}

}  // namespace libhvd
