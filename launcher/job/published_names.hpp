// What ranks of the job have published by PMIx_Publish, for ranks that look it up
// (PMIx_Lookup; MPI_Publish_name, MPI_Comm_connect).
//
// A value without descriptors or clock, for its owner's thread. All ranges of PMIx are one here:
// the job. A value is kept until its publisher withdraws it, until its first lookup if it is to be
// read once, or until the job ends. Together they have at most 64 MiB; what is beyond is refused
// with PMIX_ERR_OUT_OF_RESOURCE.
//
// Source: PMIx Standard 4.1, chapter 9 (publish and lookup).
#pragma once

#include "base/result.hpp"
#include "protocol/pmix_messages.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

class PublishedNames {
 public:
  // Sends an answer to the agent of a host. What it points to lives during the call.
  using Send = std::function<void(std::size_t host, const NamesAnswer& answer)>;

  explicit PublishedNames(Send send) : send_(std::move(send)) {}

  void take(std::size_t host, const NamesRequest& request);

  // Drops the lookups that wait for a host's ranks. What these have published stays.
  void host_lost(std::size_t host);

 private:
  struct Value {
    std::uint32_t rank = 0;
    bool once = false;
    std::string value;
  };
  struct Lookup {
    std::size_t host = 0;
    std::uint32_t number = 0;
    std::vector<std::string> keys;
  };

  std::int32_t publish(const NamesRequest& request);
  std::int32_t withdraw(const NamesRequest& request);
  bool has_all(const Lookup& lookup) const;
  void answer(const Lookup& lookup);
  void answer_those_that_wait();
  void expire(std::size_t host, std::uint32_t number);

  Send send_;
  std::map<std::string, Value, std::less<>> values_;  // by key
  std::size_t bytes_ = 0;                             // of all keys and values
  std::list<Lookup> waiting_;                         // in the order of arrival
};

}  // namespace hvdrun
