// Samples on a disk, numbered from 0: some bytes each, with a label or without.
#pragma once

#include "base/result.hpp"
#include "data/byte_buffer.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace libhvd {

// Does not change once it is open. Any thread may call, at the same time as others.
class Source {
 public:
  virtual ~Source() = default;

  virtual std::int64_t samples() const = 0;
  // Sorted; the label is the index. Empty: the source has no labels.
  virtual const std::vector<std::string>& classes() const = 0;

  // The following take 0 ... samples() - 1.
  virtual std::int64_t label(std::int64_t sample) const = 0;  // -1: none
  virtual std::string name(std::int64_t sample) const = 0;    // for messages
  // Appends the sample's bytes. Error: without the sample's name; `out` may have got some bytes.
  virtual Outcome read(std::int64_t sample, ByteBuffer& out) const = 0;

  // Of what there is, not of the samples' bytes.
  virtual std::uint32_t fingerprint() const = 0;
};

}  // namespace libhvd
