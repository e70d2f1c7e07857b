// Finds out whether all ranks send the same gradients, as they do when no one has divided the data.
//
// A rank keeps a few bytes of some gradients of the first steps, as they are before the reduction.
// Then it sends the other ranks a hash of them, once, with its proposals (negotiation.hpp). A step
// is what runs from one call of the first gradient's name to the next. Gradients that are zero or
// the same in each step say nothing: those of a test, say. Nor does a rank that has joined.
//
// For the thread that drives the engine. Nothing here can fail; a rank that cannot see its
// gradients sends nothing.
#pragma once

#include "engine/request.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace libhvd {

class EqualGradients {
 public:
  static constexpr std::size_t kSteps = 10;
  static constexpr std::size_t kNames = 8;          // the first ones of a step
  static constexpr std::size_t kSampleBytes = 128;  // of each, from its middle

  // `ranks`: how many must send the same; 0: the check is off.
  explicit EqualGradients(int ranks) : ranks_(ranks), looks_(ranks > 1) {}

  // Returns whether look() is still of use.
  bool looks() const { return looks_; }
  // Keeps a sample of the request's gradients, which is about to run. `name`: its name's hash.
  void look(const Request& request, std::uint64_t name);

  // Returns what this rank sends the others in this round; 0: nothing. On a GPU it sends in the
  // first round in which the copies are made; the thread does not wait for them.
  std::uint64_t send();
  // Takes what a rank has sent in this round. Returns true once, when all ranks have sent the same.
  bool receive(std::uint64_t sent);

 private:
  struct Watched {
    std::uint64_t name = 0;  // its hash
    std::size_t calls = 0;
  };

  Watched* find(std::uint64_t name);
  std::byte* place_for(const Watched& watched);
  std::uint64_t hash_of_steps() const;

  int ranks_;
  bool looks_;
  std::array<Watched, kNames> watched_ = {};
  std::size_t names_ = 0;  // in watched_
  std::vector<std::byte> on_host_;
  // By step, then by name. In page-locked memory if the gradients are in device memory.
  std::byte* samples_ = nullptr;
  // The last call with a copy. Null: the gradients are in host memory, or the hash is sent.
  std::shared_ptr<DeviceCall> last_copied_;

  int senders_ = 0;  // how many ranks have sent
  std::uint64_t first_sent_ = 0;
  bool differ_ = false;
};

}  // namespace libhvd
