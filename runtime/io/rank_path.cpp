#include "io/rank_path.hpp"

#include "base/process_environment.hpp"
#include "common/text.hpp"
#include "common/variables.h"

#include <algorithm>
#include <string_view>

#include <unistd.h>

namespace libhvd {
namespace {

// Returns the number with leading zeros, so that the names of `size` ranks sort.
std::string padded(int number, int size) {
  const std::string digits = std::to_string(number);
  const std::size_t width = std::to_string(size - 1).size();
  return std::string(width - std::min(width, digits.size()), '0') + digits;
}

class Pattern {
 public:
  Pattern(const std::string& text, const Topology& topology, const Environment& environment)
      : text_(text), topology_(topology), environment_(environment) {}

  Result<std::string> expand() {
    const auto parts = parse_pattern(text_);
    if (!parts)
      return wrong(parts.error() == PatternError::unclosed_brace
                       ? "\"{\" without \"}\""
                       : "\"}\" without \"{\"; a brace itself is written twice");
    std::string path;
    for (const PatternPart& part : *parts) {
      if (!part.is_name) {
        path += part.text;
        continue;
      }
      HVD_TRY(const std::string value, value_of(part.text));
      path += value;
    }
    if (topology_.size > 1 && !differs_by_rank())
      return wrong("all ranks would have one file; put {rank} into it");
    return path;
  }

 private:
  // Returns what replaces a word, and notes whether it differs by rank.
  Result<std::string> value_of(std::string_view word) {
    if (word == "rank") {
      has_rank_ = true;
      return padded(topology_.rank, topology_.size);
    }
    if (word == "local_rank") {
      has_local_rank_ = true;
      return padded(topology_.local_rank, topology_.local_size);
    }
    if (word == "node_rank") {
      has_host_ = true;
      return padded(topology_.node_rank, topology_.node_count);
    }
    if (word == "host") {
      has_host_ = true;
      return host_name(environment_);
    }
    if (word == "size") return std::to_string(topology_.size);
    if (word == "job") return environment_(HVD_ENV_JOB_ID).value_or("alone");
    if (word == "restart") return environment_(HVD_ENV_RESTART_COUNT).value_or("0");
    return wrong("{" + std::string(word) +
                 "} is not one of {rank}, {size}, {local_rank}, {node_rank}, {host}, {job}, "
                 "{restart}");
  }

  bool differs_by_rank() const {
    return has_rank_ || (has_local_rank_ && (has_host_ || topology_.node_count == 1));
  }

  Error wrong(const std::string& what) const {
    return fail(HVD_ERROR_INVALID_ARGUMENT, "file name \"" + text_ + "\": " + what);
  }

  const std::string& text_;
  const Topology& topology_;
  const Environment& environment_;
  bool has_rank_ = false;
  bool has_local_rank_ = false;
  bool has_host_ = false;
};

}  // namespace

Result<std::string> rank_path(const std::string& pattern, const Topology& topology,
                              const Environment& environment) {
  return Pattern(pattern, topology, environment).expand();
}

}  // namespace libhvd
