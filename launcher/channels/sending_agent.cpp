#include "channels/sending_agent.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// Writes a file into a link, as fast as the other end takes it.
class FileFeed {
 public:
  FileFeed(const EventLoop& loop, LinkEnd link, std::shared_ptr<const AgentFile> file)
      : link_(std::move(link)),
        file_(std::move(file)),
        readable_(loop, link_.in.get(), FdEvent::readable, [this] { drop_input(); }),
        writable_(loop, link_.out.get(), FdEvent::writable, [this] { write_more(); }) {
    readable_.enable();
    writable_.enable();
  }

 private:
  // What the login shell prints there.
  void drop_input() {
    std::array<char, 4096> text;  // NOLINT: never read
    const ssize_t got = ::read(link_.in.get(), text.data(), text.size());
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) readable_.disable();
  }

  void write_more() {
    const auto& content = file_->content;
    const ssize_t done =
        ::write(link_.out.get(), content.data() + written_, content.size() - written_);
    if (done > 0) written_ += static_cast<std::size_t>(done);
    const bool failed = done < 0 && errno != EAGAIN && errno != EINTR;
    if (!failed && written_ < content.size()) return;
    writable_.reset();
    ::shutdown(link_.out.get(), SHUT_WR);  // libssh's link is a socket, with two descriptors
    link_.out.reset();
  }

  LinkEnd link_;
  std::shared_ptr<const AgentFile> file_;
  std::size_t written_ = 0;
  FdEvent readable_;
  FdEvent writable_;
};

}  // namespace

Result<std::shared_ptr<const AgentFile>> Sendings::file() {
  if (!file_) {
    HVD_TRY(auto file, read_agent_file());
    file_ = std::make_shared<const AgentFile>(std::move(file));
  }
  return file_;
}

class SendingAgent final : public AgentChannel {
 public:
  SendingAgent(const EventLoop& loop, std::shared_ptr<Sendings> sendings, StartLogin start,
               Events events)
      : loop_(loop),
        sendings_(std::move(sendings)),
        start_(std::move(start)),
        events_(std::move(events)),
        next_(loop, [this] { take_next_step(); }) {}

  ~SendingAgent() override { leave(); }

  Result<void> start() {
    HVD_TRY(login_, start_({}, {events_.on_link, events_.on_text, [this] { on_end(); }}));
    return {};
  }

  std::string_view name() const override { return login_->name(); }
  bool host_answers(std::chrono::milliseconds time) const override {
    return login_->host_answers(time);
  }
  bool sends_in_vain() const override { return login_->sends_in_vain(); }
  void on_reached() override { login_->on_reached(); }
  SshFacts ssh_facts() const override { return login_->ssh_facts(); }
  bool ended() const override { return ended_; }
  std::string connection_failure() const override { return login_->connection_failure(); }
  bool network_failed() const override { return login_->network_failed(); }

  void kill(pid_t agent) override {
    cut_ = true;
    login_->kill(agent);
    if (next_.pending() || step_ == Step::waiting) end();
  }

  std::string status() const override {
    if (step_ == Step::waiting) return "waiting for hvdrun to be sent to another host";
    return step_ == Step::sending ? "sending hvdrun there" : login_->status();
  }

  std::string failure() const override {
    if (!failure_.empty()) return failure_;
    return step_ == Step::started ? login_->failure() : lack_->what;
  }

  std::string note() const override {
    return lack_ && lack_->is_other_version ? lack_->what + kWasSent : std::string();
  }

  bool wait() override {
    next_.cancel();
    return login_->wait();
  }

 private:
  enum class Step { started, waiting, sending };

  // A login must not be destroyed within its own event, so the next step is taken by the loop.
  void on_end() {
    if (cut_) return end();
    if (step_ == Step::sending) {
      feed_.reset();
      if (!login_->wait()) failure_ = fmt::format("{}; {}", lack_->what, login_->failure());
      leave();
      return failure_.empty() ? next_.start(std::chrono::milliseconds(0)) : end();
    }
    auto lack = login_->lack();
    if (!lack || lack_) return end();  // a host gets the file once
    lack_ = std::move(lack);
    if (sendings_->first_ != nullptr && !sendings_->first_has_ended_) {
      step_ = Step::waiting;
      sendings_->waiting_.push_back(this);
      return;
    }
    if (sendings_->first_ == nullptr) sendings_->first_ = this;
    next_.start(std::chrono::milliseconds(0));
  }

  void take_next_step() {
    Result<void> taken;
    if (step_ == Step::sending) {
      step_ = Step::started;
      taken = start();
    } else {
      step_ = Step::sending;
      taken = send();
    }
    if (taken) return;
    failure_ = taken.error().message;
    end();
  }

  Result<void> send() {
    HVD_TRY(const auto file, sendings_->file());
    HVD_TRY(login_, start_(receive_command(sendings_->agent(), *file),
                           {[this, file](LinkEnd link) {
                              feed_ = std::make_unique<FileFeed>(loop_, std::move(link), file);
                            },
                            [](const std::string&) {}, [this] { on_end(); }}));
    return {};
  }

  // Lets the others send, if this was the first.
  void leave() {
    std::erase(sendings_->waiting_, this);
    if (sendings_->first_ != this || sendings_->first_has_ended_) return;
    sendings_->first_has_ended_ = true;
    for (auto* other : std::exchange(sendings_->waiting_, {}))
      other->next_.start(std::chrono::milliseconds(0));
  }

  void end() {
    if (std::exchange(ended_, true)) return;
    next_.cancel();
    leave();
    events_.on_end();
  }

  const EventLoop& loop_;
  const std::shared_ptr<Sendings> sendings_;
  const StartLogin start_;
  const Events events_;
  Timer next_;
  std::unique_ptr<FileFeed> feed_;
  std::unique_ptr<AgentChannel> login_;  // the present one, or the last
  Step step_ = Step::started;
  std::optional<AgentLack> lack_;
  std::string failure_;  // why the file was not sent
  bool cut_ = false;
  bool ended_ = false;
};

Result<std::unique_ptr<AgentChannel>> start_sending_agent(const EventLoop& loop,
                                                          std::shared_ptr<Sendings> sendings,
                                                          StartLogin start,
                                                          const AgentChannel::Events& events) {
  auto agent = std::make_unique<SendingAgent>(loop, std::move(sendings), std::move(start), events);
  HVD_CHECK(agent->start());
  return agent;
}

}  // namespace hvdrun
