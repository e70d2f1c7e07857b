// Samples on a disk, numbered from 0: some bytes each, with or without a label. The interface that
// folders and files of records implement. Reading blocks on the disk, on the caller's thread.
#pragma once

#include "base/error.hpp"
#include "io/byte_buffer.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace libhvd {

// Constant once it is open. Any number of threads may call at the same time.
class Source {
 public:
  virtual ~Source() = default;

  virtual std::int64_t samples() const = 0;
  // Returns the names of the classes, sorted; a label is an index into them. Empty if the source
  // has no labels.
  virtual const std::vector<std::string>& classes() const = 0;

  // The next three take a sample of 0 ... samples() - 1.
  virtual std::int64_t label(std::int64_t sample) const = 0;  // -1: it has none
  virtual std::string name(std::int64_t sample) const = 0;    // for messages
  // Appends the sample's bytes. Error: the message is without the sample's name, and `out` may have
  // got some bytes.
  virtual Result<void> read(std::int64_t sample, ByteBuffer& out) const = 0;

  // Returns a number that shows whether two ranks see the same samples. It depends on their names,
  // sizes or number, but not on their bytes.
  virtual std::uint32_t fingerprint() const = 0;
};

}  // namespace libhvd
