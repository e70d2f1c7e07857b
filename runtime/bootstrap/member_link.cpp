#include "bootstrap/member_link.hpp"

#include "base/thread.hpp"
#include "bootstrap/job_secret.hpp"
#include "bootstrap/socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace libhvd {
namespace {

constexpr std::chrono::seconds kSendTime{60};  // for what does not wait for other members
constexpr std::int64_t kMostMembers = 1 << 30;

Result<Fd> connect_to_path(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return fail(HVD_ERROR_ENVIRONMENT,
                std::string(kAgentVariable) + "=" + path + " is too long for a socket");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return fail_errno("cannot open a socket", errno);
  // It blocks while the agent has many connections to accept.
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
         0) {
    if (errno == EINTR) continue;
    const Error error = fail_errno("cannot connect to the agent of this host at " + path, errno);
    return fail(HVD_ERROR_ENVIRONMENT, error.message);
  }
  if (::fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0)
    return fail_errno("cannot use a socket", errno);
  return socket;
}

void signal_event(const Fd& event) {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(event.get(), &one, sizeof one));
}

void drain_event(const Fd& event) {
  std::uint64_t value = 0;
  static_cast<void>(!::read(event.get(), &value, sizeof value));
}

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

std::string describe_over(const GenerationOver& over) {
  std::string text = "generation " + std::to_string(over.generation - 1) + " is over";
  for (const auto& lost : over.lost)
    text += (&lost == over.lost.data() ? ": member " : ", member ") + std::to_string(lost.member) +
            " " + lost.text;
  if (over.lost.empty()) text += ": a collective or a connection of another member has failed";
  return text;
}

std::string describe_over(const GenerationOver& over, const GenerationGo& generation) {
  std::string text;
  for (const LostMember& lost : over.lost) {
    const auto rank = rank_of(generation, lost.member);
    text += (text.empty() ? "" : ", ") +
            (rank ? "rank " + std::to_string(*rank) : "member " + std::to_string(lost.member)) +
            " " + lost.text;
  }
  return text.empty() ? "a collective or a connection of another rank has failed" : text;
}

std::optional<int> rank_of(const GenerationGo& generation, std::uint32_t member) {
  const auto& ranks = generation.ranks;
  const auto found = std::find_if(ranks.begin(), ranks.end(),
                                  [=](const GenerationRank& one) { return one.member == member; });
  if (found == ranks.end()) return std::nullopt;
  return static_cast<int>(found - ranks.begin());
}

bool has_agent(const Environment& environment) {
  return is_set(environment, kAgentVariable);
}

bool is_newcomer(const Environment& environment) {
  return has_agent(environment) && is_set(environment, kNewcomerVariable);
}

Result<std::unique_ptr<MemberLink>> MemberLink::open(const Environment& environment) {
  HVD_TRY(const auto member, read_integer(environment, kMemberVariable, 0, kMostMembers));
  HVD_TRY(const auto key, read_job_key(environment));
  MemberHello hello;
  if (!has_agent(environment) || !member || key.size() != hello.key.size())
    return fail(HVD_ERROR_ENVIRONMENT, std::string(kAgentVariable) + ", " + kMemberVariable +
                                           " and HVD_JOB_KEY must be set together");
  std::unique_ptr<MemberLink> link(new MemberLink);
  link->member_ = static_cast<std::uint32_t>(*member);
  HVD_TRY(link->socket_, connect_to_path(*environment(kAgentVariable)));
  link->cancel_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  link->stop_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!link->cancel_ || !link->stop_) return fail_errno("cannot open an eventfd", errno);
  std::copy(key.begin(), key.end(), hello.key.begin());
  hello.member = link->member_;
  hello.pid = static_cast<std::uint32_t>(::getpid());
  HVD_CHECK(link->send(AgentFrameKind::hello, 0, encode(hello), Deadline(kSendTime)));
  HVD_TRY(link->thread_, start_thread("hears the agent", [raw = link.get()] { raw->run(); }));
  return link;
}

MemberLink::~MemberLink() {
  if (!thread_.joinable()) return;
  signal_event(stop_);
  thread_.join();
}

// --- what the member does ------------------------------------------------------------------------

Result<void> MemberLink::send(AgentFrameKind kind, std::uint32_t generation,
                              const std::string& payload, const Deadline& deadline) {
  const auto frame = encode_agent_frame({kind, generation, payload});
  auto sent = send_all(socket_, bytes_of(frame), deadline);
  if (!sent.ok()) return with_context("the agent of this host", sent.error());
  return {};
}

// Waits until done(), or until there is a reason not to wait any more.
template <class Done>
Result<void> MemberLink::wait(std::unique_lock<std::mutex>& lock, const Deadline& deadline,
                              const char* for_what, const Done& done) {
  while (!done()) {
    if (over_) return fail(HVD_ERROR_PEER, describe_over(*over_));
    if (closed_) return fail(HVD_ERROR_PEER, *closed_);
    if (deadline.over())
      return fail(HVD_ERROR_TIMEOUT, std::string("the other ranks did not come to ") + for_what +
                                         " in time (HVD_START_TIMEOUT)");
    changed_.wait_for(lock, std::chrono::milliseconds(deadline.poll_ms()));
  }
  return {};
}

Result<std::optional<GenerationGo>> MemberLink::come(MemberCome come, const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  state_ = State::coming;
  over_.reset();
  go_.reset();
  drain_event(cancel_);
  come.last_generation = generation_;
  lock.unlock();
  HVD_CHECK(send(AgentFrameKind::come, come.last_generation, encode(come), deadline));
  lock.lock();
  HVD_CHECK(wait(lock, deadline, "the next generation", [this] { return go_ || removed_; }));
  if (removed_) return std::optional<GenerationGo>();
  return std::exchange(go_, std::nullopt);
}

Result<std::vector<std::string>> MemberLink::exchange(std::uint32_t number, const std::string& blob,
                                                      const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  if (over_) return fail(HVD_ERROR_PEER, describe_over(*over_));
  const auto generation = generation_;
  lock.unlock();
  HVD_CHECK(send(AgentFrameKind::part, generation, encode(MemberPart{number, blob}), deadline));
  lock.lock();
  HVD_CHECK(wait(lock, deadline, "the start of a generation",
                 [&] { return parts_ && parts_->exchange == number; }));
  return std::move(std::exchange(parts_, std::nullopt)->blobs);
}

Result<void> MemberLink::leave() {
  std::unique_lock lock(mutex_);
  if (state_ == State::outside) return {};
  state_ = State::outside;
  over_.reset();
  drain_event(cancel_);
  const auto generation = generation_;
  lock.unlock();
  return send(AgentFrameKind::leave, generation, {}, Deadline(kSendTime));
}

std::optional<GenerationOver> MemberLink::over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

std::optional<GenerationOver> MemberLink::wait_for_over(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [this] { return over_.has_value() || closed_.has_value(); });
  return over_;
}

std::string MemberLink::why_removed() const {
  const std::lock_guard lock(mutex_);
  return removed_.value_or("");
}

bool MemberLink::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_.has_value();
}

std::uint32_t MemberLink::updates() const {
  const std::lock_guard lock(mutex_);
  return updates_;
}

void MemberLink::set_on_over(std::function<void(const GenerationOver&)> on_over) {
  {
    const std::lock_guard lock(calling_);
    on_over_ = std::move(on_over);
  }
  call_on_over();
}

void MemberLink::call_on_over() {
  const std::lock_guard lock(calling_);
  const auto over = this->over();
  if (!over || !on_over_ || over->generation == called_for_) return;
  called_for_ = over->generation;
  on_over_(*over);
}

// --- the thread ----------------------------------------------------------------------------------

void MemberLink::run() {
  std::array<pollfd, 2> waits{{{socket_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
  while (true) {
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return close("cannot wait");
    if (waits[1].revents != 0) return;
    if (waits[0].revents != 0 && !read()) return;
    waits[0].revents = 0;
  }
}

// Reads what has arrived. Returns false if nothing more will come.
bool MemberLink::read() {
  std::array<char, 64 << 10> buffer;
  const ssize_t count = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count < 0 && would_block(errno)) return true;
  if (count <= 0) {
    close("the agent of this host has ended, or has closed its connection");
    return false;
  }
  reader_.feed({buffer.data(), static_cast<std::size_t>(count)});
  AgentFrame frame;
  while (true) {
    const auto status = reader_.next(frame);
    if (status == AgentFrameReader::Status::need_more) return true;
    if (status == AgentFrameReader::Status::malformed || !take(frame)) {
      close("the agent of this host has sent a malformed message");
      return false;
    }
  }
}

void MemberLink::close(const std::string& why) {
  const std::lock_guard lock(mutex_);
  closed_ = why;
  signal_event(cancel_);
  changed_.notify_all();
}

// Takes a frame of the agent. Returns false if it is malformed. What belongs to a generation that
// is over for this member has no effect.
bool MemberLink::take(const AgentFrame& frame) {
  std::unique_lock lock(mutex_);
  switch (frame.kind) {
    case AgentFrameKind::go:
      return take_go(frame);
    case AgentFrameKind::parts: {
      auto parts = decode_parts(frame);
      if (!parts) return false;
      if (state_ != State::in || parts->generation != generation_) return true;
      if (parts->blobs.size() != size_) return false;
      parts_ = std::move(parts);
      break;
    }
    case AgentFrameKind::over: {
      auto over = decode_over(frame);
      if (!over) return false;
      if (state_ != State::in || over->generation <= generation_) return true;
      // A later one replaces it if it knows who was lost.
      if (over_ && (!over_->lost.empty() || over->lost.empty())) return true;
      over_ = std::move(over);
      signal_event(cancel_);
      changed_.notify_all();
      lock.unlock();
      call_on_over();
      return true;
    }
    case AgentFrameKind::updated: {
      const auto bits = decode_updated(frame.payload);
      if (!bits) return false;
      updates_ |= *bits;
      return true;
    }
    case AgentFrameKind::removed:
      removed_ = frame.payload;
      break;
    default:
      return true;
  }
  changed_.notify_all();
  return true;
}

// mutex_ is held.
bool MemberLink::take_go(const AgentFrame& frame) {
  auto go = decode_go(frame);
  if (!go) return false;
  if (state_ != State::coming) return true;
  const auto& ranks = go->ranks;
  if (!rank_of(*go, member_) || go->generation <= generation_) return false;
  state_ = State::in;
  generation_ = go->generation;
  size_ = ranks.size();
  parts_.reset();
  updates_ = 0;
  go_ = std::move(go);
  changed_.notify_all();
  return true;
}

}  // namespace libhvd
