#include "api/meeting.hpp"

#include "api/host_mesh.hpp"
#include "api/introduction.hpp"
#include "base/hex.hpp"
#include "base/host_name.hpp"
#include "base/random.hpp"
#include "bootstrap/job_key.hpp"
#include "hvd_contract/environment.h"

#include <algorithm>
#include <cctype>
#include <fstream>

#include <unistd.h>

namespace libhvd {
namespace {

constexpr const char* kDefaultDirectory = "/dev/shm";
constexpr std::size_t kJobIdInName = 32;
constexpr std::size_t kSecretBytes = 32;

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
  Outcome report();
  Result<Meeting> conclude();

  Outcome prepare(Introduction& own);
  Outcome lead(Claim& own);
  Outcome check_claims() const;
  Outcome enter();
  Outcome join();
  Result<JobSecret> secret() const;
  Result<Topology> topology() const;

  std::string path_of(std::size_t rank) const {
    return directory_ + "/" + introductions_[rank].file;
  }
  bool sees(std::size_t rank) const;
  bool leads() const { return leader_ == rank_; }
  int host_of(std::size_t rank) const;
  Error blame(std::size_t rank, const Error& error) const;

  Bootstrap& bootstrap_;
  const Environment& environment_;
  const MeetingOptions& options_;
  int rank_;
  std::string directory_;

  SegmentFile file_;
  std::vector<Introduction> introductions_;
  int leader_ = 0;
  std::vector<Claim> claims_;
  std::optional<HostDoor> door_;  // of a leader, when there are other hosts
  std::vector<HostEntry> hosts_;
  std::optional<Segment> segment_;
  std::vector<HostSocket> sockets_;
};

Error Attendant::blame(std::size_t rank, const Error& error) const {
  return with_context("rank " + std::to_string(rank) + " on " + introductions_[rank].host, error);
}

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
  return Done{};
}

Outcome Attendant::prepare(Introduction& own) {
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
  if (leads()) {
    if (const auto led = lead(own); !led.ok()) own.trouble = led.error();
  }
  HVD_TRY(const auto blobs, bootstrap_.exchange(encode(own)));
  for (std::size_t rank = 0; rank < blobs.size(); ++rank) {
    HVD_TRY(auto claim, decode_claim(blobs[rank]));
    if (claim.trouble.status != HVD_OK) return blame(rank, claim.trouble);
    claims_.push_back(std::move(claim));
  }
  return check_claims();
}

Outcome Attendant::lead(Claim& own) {
  HVD_TRY(Segment made, Segment::create(std::move(file_), bootstrap_.info().size));
  segment_.emplace(std::move(made));
  bool alone = true;
  for (std::size_t rank = 0; rank < introductions_.size(); ++rank) alone = alone && sees(rank);
  if (alone) return Done{};
  HVD_CHECK(segment_->add_bridge(rank_));
  HVD_TRY(HostDoor door,
          HostDoor::open(environment_(HVD_ENV_INTERFACE).value_or(""), bootstrap_.own_address()));
  own.addresses = door.addresses();
  door_.emplace(std::move(door));
  return Done{};
}

// The same answer on all ranks.
Outcome Attendant::check_claims() const {
  for (std::size_t rank = 0; rank < claims_.size(); ++rank) {
    const auto leader = static_cast<std::size_t>(claims_[rank].leader);
    if (leader <= rank && claims_[leader].leader == claims_[rank].leader) continue;
    return fail(HVD_ERROR_UNSUPPORTED,
                "rank " + std::to_string(rank) + " on " + introductions_[rank].host +
                    " sees the shared memory of rank " + std::to_string(leader) +
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
    hosts_.push_back({static_cast<int>(rank), introductions_[rank].host, claims_[rank].addresses});
  }
  HVD_CHECK(enter());
  return leads() && hosts_.size() > 1 ? join() : Outcome(Done{});
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
  HVD_TRY(const JobSecret proven, secret());
  HVD_TRY(sockets_, join_hosts(std::move(*door_), hosts_, own, proven, options_.patience));
  return Done{};
}

// What rank 0 has drawn for this meeting, which came the bootstrap's way, together with the job's
// key, where there is one: then who listens to the network learns nothing.
Result<JobSecret> Attendant::secret() const {
  HVD_TRY(const auto key, read_job_key(environment_));
  const std::string& drawn = introductions_[0].secret;
  const Digest mixed =
      hmac_sha256(key, {reinterpret_cast<const std::uint8_t*>(drawn.data()), drawn.size()});
  return JobSecret{"bridges " + to_hex(introductions_[0].nonce),
                   {mixed.begin(), mixed.end()},
                   bootstrap_.info().size};
}

// Round 3.
Outcome Attendant::report() {
  const Outcome placed = take_places();
  HVD_TRY(const auto reports,
          bootstrap_.exchange(encode(placed.ok() ? Error{HVD_OK, {}} : placed.error())));
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

Result<Meeting> Attendant::conclude() {
  segment_->remove_name();
  Meeting meeting;
  HVD_TRY(meeting.topology, topology());
  meeting.segment = std::make_shared<Segment>(std::move(*segment_));
  if (!sockets_.empty()) {
    HVD_TRY(meeting.bridge, Bridge::start(meeting.segment, std::move(sockets_), options_.silence));
  }
  return meeting;
}

Result<Meeting> Attendant::attend() {
  HVD_CHECK(introduce());
  HVD_CHECK(claim());
  HVD_CHECK(report());
  return conclude();
}

Result<Meeting> meet_alone(const RankInfo& info) {
  Meeting meeting;
  HVD_TRY(meeting.topology, make_topology(std::span(&info, 1), 0));
  HVD_TRY(Segment segment, Segment::anonymous(1));
  HVD_CHECK(segment.announce(0));
  meeting.segment = std::make_shared<Segment>(std::move(segment));
  return meeting;
}

}  // namespace

Result<Meeting> meet(Bootstrap& bootstrap, const Environment& environment,
                     const MeetingOptions& options) {
  if (bootstrap.info().size == 1) return meet_alone(bootstrap.info());
  return Attendant(bootstrap, environment, options).attend();
}

}  // namespace libhvd
