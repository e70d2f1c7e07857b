#include "api/meeting.hpp"

#include "base/hex.hpp"
#include "base/text.hpp"
#include "bootstrap/frame.hpp"
#include "hvd_contract/environment.h"

#include <cctype>
#include <charconv>

#include <unistd.h>

namespace libhvd {
namespace {

constexpr const char* kDefaultDirectory = "/dev/shm";
constexpr std::size_t kJobIdInName = 32;

// What each rank says first. Only rank 0 has made a segment.
struct Introduction {
  RankInfo info;
  std::string host;
  SegmentName segment;
  Error trouble{HVD_OK, {}};
};

std::string encode_error(const Error& error) {
  return std::to_string(error.status) + " " + error.message;
}

Error decode_error(const std::string& text) {
  Error error;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), error.status);
  const auto at = static_cast<std::size_t>(stop - text.data());
  error.message = at < text.size() ? text.substr(at + 1) : "";
  return error;
}

std::string encode(const Introduction& introduction) {
  return join_blobs({encode_rank_info(introduction.info), introduction.host,
                     introduction.segment.path, to_hex(introduction.segment.nonce),
                     encode_error(introduction.trouble)});
}

Result<Introduction> decode(const std::string& blob) {
  HVD_TRY(const auto fields, split_blobs(blob));
  const auto nonce = fields.size() == 5 ? from_hex(fields[3]) : std::nullopt;
  if (!nonce || nonce->size() != sizeof(Nonce)) {
    return fail(HVD_ERROR_SYSTEM, "a rank runs another version of libhvd");
  }
  Introduction introduction;
  HVD_TRY(introduction.info, decode_rank_info(fields[0]));
  introduction.host = fields[1];
  introduction.segment.path = fields[2];
  std::copy(nonce->begin(), nonce->end(), introduction.segment.nonce.begin());
  introduction.trouble = decode_error(fields[4]);
  return introduction;
}

std::string host_name(const Environment& environment) {
  if (const auto given = environment(HVD_ENV_HOSTNAME); given && !given->empty()) return *given;
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
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

Result<Segment> create_segment(const Environment& environment, int size) {
  const auto directory = environment(HVD_ENV_SHM_DIR);
  return Segment::create(directory && !directory->empty() ? *directory : kDefaultDirectory,
                         safe_job_id(environment), size);
}

// Maps rank 0's segment and shows this rank in it.
Outcome enter(std::optional<Segment>& segment, const SegmentName& name, const RankInfo& info) {
  if (!segment) {
    HVD_TRY(Segment opened, Segment::open(name, info.size));
    segment.emplace(std::move(opened));
  }
  return segment->announce(info.rank);
}

// The error that the ranks' reports are, if any: the same on all.
std::optional<Error> judge_reports(const std::vector<std::string>& reports,
                                   const std::vector<Introduction>& introductions) {
  std::vector<int> elsewhere;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const Error error = decode_error(reports[rank]);
    if (error.status == HVD_OK) continue;
    if (error.status != HVD_ERROR_UNSUPPORTED) {
      return with_context("rank " + std::to_string(rank) + " on " + introductions[rank].host,
                          error);
    }
    elsewhere.push_back(static_cast<int>(rank));
  }
  if (elsewhere.empty()) return std::nullopt;
  const auto first = static_cast<std::size_t>(elsewhere.front());
  return fail(HVD_ERROR_UNSUPPORTED,
              describe_ranks(elsewhere) + " (" + introductions[first].host +
                  ") cannot see the shared memory of rank 0 (" + introductions[0].host +
                  "), so they are on other hosts. This version of libhvd has no collectives "
                  "between hosts: start all ranks on one. The first said: " +
                  decode_error(reports[first]).message);
}

Result<std::vector<Introduction>> introduce(Bootstrap& bootstrap, const Introduction& own) {
  HVD_TRY(const auto blobs, bootstrap.exchange(encode(own)));
  std::vector<Introduction> introductions;
  for (const auto& blob : blobs) {
    HVD_TRY(auto introduction, decode(blob));
    introductions.push_back(std::move(introduction));
  }
  return introductions;
}

Result<Topology> work_out_topology(const std::vector<Introduction>& introductions, int rank) {
  std::vector<RankInfo> infos;
  for (const auto& introduction : introductions) infos.push_back(introduction.info);
  return make_topology(infos, rank);
}

Result<Meeting> meet_alone(const RankInfo& info) {
  HVD_TRY(Topology topology, make_topology(std::span(&info, 1), 0));
  HVD_TRY(Segment segment, Segment::anonymous(1));
  HVD_CHECK(segment.announce(0));
  return Meeting{topology, std::make_shared<Segment>(std::move(segment))};
}

}  // namespace

Result<Meeting> meet(Bootstrap& bootstrap, const Environment& environment) {
  const RankInfo& info = bootstrap.info();
  if (info.size == 1) return meet_alone(info);

  Introduction own{info, host_name(environment), {}, {HVD_OK, {}}};
  std::optional<Segment> segment;
  if (info.rank == 0) {
    auto created = create_segment(environment, info.size);
    if (created.ok()) {
      segment.emplace(std::move(*created));
      own.segment = segment->name();
    } else {
      own.trouble = created.error();
    }
  }
  HVD_TRY(const auto introductions, introduce(bootstrap, own));
  if (const Error& trouble = introductions[0].trouble; trouble.status != HVD_OK) {
    return with_context("rank 0 on " + introductions[0].host, trouble);
  }
  HVD_TRY(const Topology topology, work_out_topology(introductions, info.rank));

  const Outcome entered = enter(segment, introductions[0].segment, info);
  HVD_TRY(const auto reports,
          bootstrap.exchange(encode_error(entered.ok() ? Error{HVD_OK, {}} : entered.error())));
  if (auto error = judge_reports(reports, introductions)) return *error;
  segment->remove_name();
  return Meeting{topology, std::make_shared<Segment>(std::move(*segment))};
}

}  // namespace libhvd
