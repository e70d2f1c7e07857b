#include "collective/communicator.hpp"

#include "collective/call.hpp"
#include "collective/disagreement.hpp"
#include "collective/element.hpp"
#include "collective/staging.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <utility>

namespace libhvd {
namespace {

static_assert(sizeof(CallDetails) <= kRecordBytes);
// On one host, where posts are.
static_assert(kRecordBytes + sizeof(PostedCalls) <= kLeastChunkBytes);
static_assert(alignof(PostedCalls) <= kCacheLine && kRecordBytes % kCacheLine == 0);

constexpr std::chrono::milliseconds kLook{20};  // while a call waits for its turn

CallOptions options_of(const CallDetails& record) {
  CallOptions options;
  options.name = record.name_hash != 0 ? record.name : nullptr;
  options.name_hash = record.name_hash;
  options.scale = {record.before, record.after};
  options.shape = std::string(field_text(record.shape));
  options.compression = record.compression;
  return options;
}

}  // namespace

Communicator::Communicator(const std::shared_ptr<Segment>& segment, int rank, int lane,
                           std::shared_ptr<SharedMemory> memory, StreamLanes streams,
                           Ordered ordered)
    : steps_(segment, rank, lane),
      chunks_{segment->layout().shape().chunk},
      slots_(segment->size(), chunks_.bytes),
      memory_(std::move(memory)),
      direct_(segment, rank, lane * segment->size()),
      streams_(std::move(streams)),
      order_(segment->hosts()),
      ordered_(std::move(ordered)),
      sources_(static_cast<std::size_t>(steps_.size())) {
  if (const auto& own = streams_[static_cast<std::size_t>(lane)])
    between_hosts_ = std::make_unique<HostsAllreduce>(steps_, lane, own);
}

Communicator::Communicator(const std::shared_ptr<Segment>& segment, int rank, StreamLanes streams,
                           std::shared_ptr<ProcessMemory> own)
    : Communicator(segment, rank, 0, std::make_shared<SharedMemory>(segment, std::move(own)),
                   std::move(streams), {std::make_shared<CallOrder>(), 0, false}) {}

Communicator::Communicator(const std::shared_ptr<Segment>& segment, int rank, StreamLanes streams,
                           const Communicator& all, std::int32_t set)
    : Communicator(segment, rank, 0, all.memory_, std::move(streams),
                   {all.ordered_.calls, static_cast<std::uint32_t>(set) * 2, true}) {
  if (all.reproducible_) make_reproducible();
  if (all.direct_.refused()) refuse_direct_reads();
}

Communicator::Communicator(const std::shared_ptr<Segment>& segment, int rank,
                           std::shared_ptr<SharedMemory> memory)
    : Communicator(segment, rank, 0, std::move(memory), {},
                   {std::make_shared<CallOrder>(), 0, false}) {}

std::unique_ptr<Communicator> Communicator::second() const {
  std::unique_ptr<Communicator> second(new Communicator(
      steps_.segment(), rank(), 1, memory_, streams_, {ordered_.calls, ordered_.number + 1, true}));
  if (reproducible_) second->make_reproducible();
  if (direct_.refused()) second->refuse_direct_reads();
  return second;
}

void Communicator::make_reproducible() {
  reproducible_ = true;
  order_.make_that_of_ranks();
}

std::byte* Communicator::scratch() {
  scratch_.resize(chunks_.bytes);
  return scratch_.data();
}

std::uint64_t Communicator::offer(const Call& call, const void* data, std::size_t bytes) {
  return direct_.offer(call.kind, data, on_one_host() && !alone() ? bytes : 0);
}

Result<bool> Communicator::end_direct_reads(const Call& call, bool could_read) {
  vote(could_read);
  HVD_CHECK(step(call));
  const bool all_could = count_votes() == size();
  if (!all_could) direct_.stop();
  return all_could;
}

void Communicator::on_long_wait(WhileWaiting hook) {
  steps_.on_long_wait([this, hook = std::move(hook)](std::uint64_t waited_ns) {
    if (current_ == nullptr) return hook("the call after a broadcast", waited_ns);
    hook(describe_call(make_call_details(*current_, rank())), waited_ns);
  });
}

Error Communicator::peer_error(const Call& call, const Failure& failure) const {
  const bool own = failure.kind == FailureKind::broken && failure.rank == number(rank());
  Error error = fail(own ? HVD_ERROR_SYSTEM : HVD_ERROR_PEER, segment()->describe(failure));
  if (call.kind == Collective::proposals) return error;  // the engine names what was pending
  return with_context(describe_call(make_call_details(call, 0)), error);
}

Result<void> Communicator::step(const Call& call) {
  current_ = &call;
  if (const auto failure = steps_.step()) return peer_error(call, *failure);
  return {};
}

void Communicator::begin_call(const Call& call) {
  CallHeader header = make_call_header(call);
  header.hash ^= posts_.hash();
  begun_ = {header, call.count};
  new (steps_.header().bytes) CallHeader(header);
  ++calls_;
}

Result<void> Communicator::publish_call(const Call& call) {
  HVD_CHECK(step(call));
  bool fits = !begun_.header.faulty();
  bool posted = false;
  for (int rank = 0; rank < size(); ++rank) {
    const bool post = steps_.has_posted(rank);
    posted = posted || post;
    fits = fits && !post && contents_of(steps_.theirs(rank)).call == begun_.header;
  }
  if (posted) return explain_post(call, make_call_header(call), all_ranks());
  if (!fits) return explain(call);
  posts_.clear();
  return {};
}

const CallHeader& Communicator::header_of(int rank) const {
  if (steps_.has_posted(rank)) {
    if (const PostSlot* const post = steps_.find_post(rank)) return contents_of(post->header).call;
  }
  return contents_of(steps_.theirs(rank)).call;
}

std::vector<int> Communicator::all_ranks() const {
  std::vector<int> ranks(static_cast<std::size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Error Communicator::explain_post(const Call& call, const CallHeader& own,
                                 std::span<const int> ranks) {
  posts_.add(own);
  std::vector<CallDetails> details;
  for (const int other : ranks)
    details.push_back(other == rank() ? make_call_details(call, number(other))
                                      : make_call_details(header_of(other), number(other)));
  return describe_posts(details);
}

// Returns the error of calls that do not fit together.
Error Communicator::describe_posts(std::span<CallDetails> details) const {
  std::vector<const CallDetails*> calls;
  for (CallDetails& each : details) {
    if (each.root >= 0 && each.root < size()) each.root = number(each.root);
    calls.push_back(&each);
  }
  const auto is_join = [](const CallDetails* each) { return each->kind == Collective::join; };
  const auto joined = std::count_if(calls.begin(), calls.end(), is_join);
  const bool mixed = joined > 0 && joined < static_cast<std::ptrdiff_t>(calls.size());
  const auto error = mixed ? find_disagreement_with_joined(calls) : find_disagreement(calls);
  if (error) return *error;
  return fail(HVD_ERROR_MISMATCH, describe_call(*calls[0]) + ": the ranks do not agree");
}

std::optional<Error> Communicator::find_wrong_post() {
  const auto shown = [&](int rank) -> const PostedCalls& {
    return *std::launder(
        reinterpret_cast<const PostedCalls*>(steps_.theirs(rank).input + kRecordBytes));
  };
  std::uint32_t least = kPosts - 1;
  for (int rank = 0; rank < size(); ++rank) least = std::min(least, shown(rank).count);
  for (std::uint32_t call = 0; call < least; ++call) {
    std::vector<CallDetails> details;
    bool fits = true;
    for (int rank = 0; rank < size(); ++rank) {
      const CallHeader& header = shown(rank).headers[call];
      fits = fits && header == shown(0).headers[call];
      details.push_back(make_call_details(header, number(rank)));
    }
    if (fits) continue;
    has_joined_before_ = details[static_cast<std::size_t>(rank())].kind == Collective::join;
    return with_context("an earlier call has failed", describe_posts(details));
  }
  return std::nullopt;
}

// A rank may enter a call long before the others. If it proposed a number then, calls of its other
// communicators would wait until all ranks have entered. So it proposes one only when it is certain
// that all ranks take part.
Result<CallTurn> Communicator::agree(const Call& call) {
  if (!ordered_.negotiated) HVD_CHECK(open_call(call));
  CallTurn turn(ordered_.calls, ordered_.number);
  std::uint64_t number = turn.number();
  std::memcpy(own_inline_data(), &number, sizeof number);
  HVD_CHECK(ordered_.negotiated ? open_call(call) : step(call));
  for (int rank = 0; rank < size(); ++rank) {
    std::uint64_t theirs;
    std::memcpy(&theirs, inline_data(rank), sizeof theirs);
    number = std::max(number, theirs);
  }
  turn.decide(number);
  while (!turn.comes_within(kLook)) {
    if (const auto failure = find_failure()) return peer_error(call, *failure);
  }
  return turn;
}

// All ranks call this if one does, because all have seen the same headers.
Error Communicator::explain(const Call& call) {
  const Area mine = steps_.mine();
  auto* const own = new (mine.input) CallDetails(make_call_details(call, number(rank())));
  if (call.root >= 0 && call.root < size()) own->root = number(call.root);
  mine.used.input = sizeof(CallDetails);
  if (on_one_host()) new (mine.input + kRecordBytes) PostedCalls(posts_.calls());
  posts_.clear();
  if (const Result<void> stepped = step(call); !stepped.ok()) return stepped.error();
  wrong_post_ = on_one_host() ? find_wrong_post() : std::nullopt;
  if (wrong_post_) return *wrong_post_;
  std::vector<const CallDetails*> calls;
  const CallDetails* caller = nullptr;
  bool joined = false;
  for (int rank = 0; rank < size(); ++rank) {
    calls.push_back(std::launder(reinterpret_cast<const CallDetails*>(steps_.theirs(rank).input)));
    if (calls.back()->kind == Collective::join) {
      joined = true;
    } else {
      caller = calls.back();
    }
  }
  const auto error = joined ? find_disagreement_with_joined(calls) : find_disagreement(calls);
  if (error) return *error;
  if (joined) call_with_joined_ = *caller;
  return fail(HVD_ERROR_MISMATCH, describe_call(*calls[0]) + ": the ranks do not agree");
}

Result<bool> Communicator::join() {
  const Result<void> opened = open_call(Call(Collective::join));
  if (opened.ok()) return true;
  if (opened.error().status == HVD_ERROR_PEER) return opened.error();
  if (auto wrong = std::exchange(wrong_post_, std::nullopt); wrong && !has_joined_before_)
    return *wrong;
  if (const auto theirs = std::exchange(call_with_joined_, std::nullopt)) {
    if (const Result<void> followed = follow(*theirs);
        !followed.ok() && followed.error().status == HVD_ERROR_PEER)
      return followed.error();
  }
  return false;
}

std::vector<int> Communicator::waiting() const {
  const std::vector<int> missing = absent();
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (std::find(missing.begin(), missing.end(), rank) != missing.end()) continue;
    if (header_of(rank).kind() != Collective::join) ranks.push_back(rank);
  }
  return ranks;
}

// Takes part in a call of the others, after this rank has joined.
Result<void> Communicator::follow(const CallDetails& theirs) {
  if (theirs.kind != Collective::group) return reduce_zeros(theirs);
  CallOptions options = options_of(theirs);
  options.place.on_device = theirs.on_device != 0;
  HVD_CHECK(open_group(theirs.count, theirs.row_size, theirs.type, theirs.op, options));
  // One tensor after the other. An error of the others ends the group.
  for (std::uint64_t tensor = 0; tensor < theirs.count; ++tensor) {
    const Result<void> opened = open_call(Call(Collective::join));
    const auto its = std::exchange(call_with_joined_, std::nullopt);
    HVD_CHECK(its ? reduce_zeros(*its) : opened);
  }
  return {};
}

Result<bool> Communicator::open_group(std::size_t tensors, std::uint64_t hash_of_lengths,
                                      hvd_type type, hvd_op op, const CallOptions& options) {
  Call call = make_call(Collective::group, options);
  call.type = type;
  call.op = op;
  call.count = tensors;
  call.row_size = hash_of_lengths;
  call.on_device = options.place.on_device;
  Result<void> opened = open_call(call);
  const bool with_joined = continues_with_joined();
  if (with_joined) opened = open_call(call);
  HVD_CHECK(opened);
  return with_joined;
}

// Takes part with zeros in an allreduce of the others.
Result<void> Communicator::reduce_zeros(const CallDetails& theirs) {
  CallOptions options = options_of(theirs);
  const std::unique_ptr<void, decltype(&std::free)> zeros(
      std::calloc(std::max<std::size_t>(1, theirs.count), element_size(theirs.type)), &std::free);
  if (!zeros) options.fault = "it has joined, and has no memory for as many zeros";
  return allreduce_once(zeros.get(), zeros.get(), theirs.count, theirs.type, theirs.op, options);
}

Result<void> Communicator::barrier(const CallOptions& options) {
  return open_call(make_call(Collective::barrier, options));
}

Result<void> Communicator::wait_for_proposals(const std::function<bool()>& ready) {
  if (const auto failure = steps_.wait_for_any(ready))
    return peer_error(make_call(Collective::proposals, {}), *failure);
  return {};
}

// A few bytes go beside the header, more go into the area.
Result<void> Communicator::exchange_proposals(std::span<const std::byte> own,
                                              const ProposalSettings& settings,
                                              const EachProposals& each) {
  struct Beside {
    std::uint32_t length;
    std::byte bytes[kInlineBytes - sizeof(std::uint32_t)];
  };
  static_assert(sizeof(Beside) == kInlineBytes);
  Call call(Collective::proposals);
  call.count = settings.fusion_bytes;
  call.row_size = settings.cache_capacity;
  call.root = static_cast<std::int32_t>(std::min<std::uint64_t>(
      settings.largest_fused_bytes, std::numeric_limits<std::int32_t>::max()));
  HVD_CHECK(open_call(call, [&] {
    Beside mine{.length = static_cast<std::uint32_t>(own.size()), .bytes = {}};
    const bool fits = own.size() <= sizeof mine.bytes;
    if (fits) copy_bytes(mine.bytes, own.data(), own.size());
    std::memcpy(own_inline_data(), &mine, sizeof mine);
    if (fits) return;
    copy_bytes(steps_.mine().input, own.data(), own.size());
    steps_.mine().used.input = mine.length;
  }));
  for (int rank = 0; rank < size(); ++rank) {
    Beside theirs;
    std::memcpy(&theirs, inline_data(rank), sizeof theirs);
    const bool beside = theirs.length <= sizeof theirs.bytes;
    // A larger length is garbage; `each` then gets no bytes, which are garbage to it too.
    const bool fits = theirs.length <= max_proposal_bytes();
    each(rank, {beside ? theirs.bytes : steps_.theirs(rank).input, fits ? theirs.length : 0});
  }
  return {};
}

}  // namespace libhvd
