#include "common/net/lookup.hpp"

#include "common/thread.hpp"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include <netdb.h>

namespace common {
namespace {

// On a host without a free core both threads wait for their turns. So the time is awaited in parts,
// which take longer there.
constexpr std::chrono::milliseconds kPart{10};

std::vector<Address> addresses_of(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    Address address;
    if (entry->ai_addrlen > sizeof address.storage) continue;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    addresses.push_back(address);
  }
  return addresses;
}

}  // namespace

struct Lookup::Answers {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::vector<Address>> ready;  // in the order of the names
  bool unwanted = false;                   // no answer is awaited any more

  // Returns whether more answers are wanted.
  bool add(std::vector<Address> answer) {
    const std::lock_guard lock(mutex);
    ready.push_back(std::move(answer));
    changed.notify_one();
    return !unwanted;
  }
};

Lookup::Lookup(std::vector<std::string> names) : answers_(std::make_shared<Answers>()) {
  auto thread = start_thread("looks up hosts", [names = std::move(names), answers = answers_] {
    for (const auto& name : names)
      if (!answers->add(addresses_of(name))) return;
  });
  if (thread)
    thread->detach();
  else
    answers_.reset();
}

Lookup::~Lookup() {
  if (!answers_) return;
  const std::lock_guard lock(answers_->mutex);
  answers_->unwanted = true;
}

std::vector<Address> Lookup::next(std::chrono::milliseconds patience) {
  if (!answers_) return {};
  std::unique_lock lock(answers_->mutex);
  const auto has_come = [this] { return !answers_->ready.empty(); };
  for (auto left = patience; !has_come(); left -= kPart) {
    if (left.count() > 0) {
      answers_->changed.wait_for(lock, kPart, has_come);
      continue;
    }
    answers_->unwanted = true;
    lock.unlock();
    answers_.reset();
    return {};
  }
  auto answer = std::move(answers_->ready.front());
  answers_->ready.pop_front();
  return answer;
}

}  // namespace common
