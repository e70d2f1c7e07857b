#include "job/published_names.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace hvdrun {
namespace {

constexpr std::size_t kMaxBytes = 64u << 20;

}  // namespace

void PublishedNames::take(std::size_t host, const NamesRequest& request) {
  using enum NamesRequest::Operation;
  switch (request.operation) {
    case publish:
      send_(host, {request.number, this->publish(request), {}});
      return answer_those_that_wait();
    case withdraw:
      return send_(host, {request.number, this->withdraw(request), {}});
    case expire:
      return this->expire(host, request.number);
    case look_up: {
      Lookup lookup{host, request.number, {}};
      for (const auto& value : request.values) lookup.keys.emplace_back(value.key);
      if (request.waits && !has_all(lookup))
        waiting_.push_back(std::move(lookup));
      else
        answer(lookup);
      return;
    }
  }
}

// Publishes all of the values, or none.
std::int32_t PublishedNames::publish(const NamesRequest& request) {
  std::set<std::string_view> keys;
  std::size_t bytes = bytes_;
  for (const auto& value : request.values) {
    if (values_.contains(value.key) || !keys.insert(value.key).second) return kPmixDuplicateKey;
    bytes += value.key.size() + value.value.size();
  }
  if (bytes > kMaxBytes) return kPmixOutOfResource;
  bytes_ = bytes;
  for (const auto& value : request.values)
    values_.emplace(value.key, Value{value.rank, request.once, std::string(value.value)});
  return kPmixSuccess;
}

// Withdraws what the rank has published under the keys; without keys, all that it has published.
std::int32_t PublishedNames::withdraw(const NamesRequest& request) {
  const auto is_meant = [&request](const auto& entry) {
    return std::ranges::any_of(request.values, [&entry](const PublishedValue& one) {
      return one.rank == entry.second.rank && (one.key.empty() || one.key == entry.first);
    });
  };
  bool found = false;
  for (auto at = values_.begin(); at != values_.end();) {
    if (!is_meant(*at)) {
      ++at;
      continue;
    }
    found = true;
    bytes_ -= at->first.size() + at->second.value.size();
    at = values_.erase(at);
  }
  return found ? kPmixSuccess : kPmixNotFound;
}

bool PublishedNames::has_all(const Lookup& lookup) const {
  return std::ranges::all_of(lookup.keys,
                             [this](const auto& key) { return values_.contains(key); });
}

void PublishedNames::answer(const Lookup& lookup) {
  NamesAnswer answer{lookup.number, kPmixSuccess, {}};
  for (const auto& key : lookup.keys)
    if (const auto at = values_.find(key); at != values_.end())
      answer.values.push_back({at->second.rank, at->first, at->second.value});
  if (answer.values.size() < lookup.keys.size())
    answer.status = answer.values.empty() ? kPmixNotFound : kPmixPartialSuccess;
  send_(lookup.host, answer);
  for (const auto& key : lookup.keys)
    if (const auto at = values_.find(key); at != values_.end() && at->second.once) {
      bytes_ -= at->first.size() + at->second.value.size();
      values_.erase(at);
    }
}

void PublishedNames::answer_those_that_wait() {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (has_all(*at)) {
      answer(*at);
      at = waiting_.erase(at);
    } else {
      ++at;
    }
  }
}

// The lookup may have been answered meanwhile.
void PublishedNames::expire(std::size_t host, std::uint32_t number) {
  const auto removed = waiting_.remove_if([host, number](const Lookup& lookup) {
    return lookup.host == host && lookup.number == number;
  });
  if (removed > 0) send_(host, {number, kPmixTimeout, {}});
}

void PublishedNames::host_lost(std::size_t host) {
  waiting_.remove_if([host](const Lookup& lookup) { return lookup.host == host; });
}

}  // namespace hvdrun
