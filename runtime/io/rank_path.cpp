#include "io/rank_path.hpp"

#include "base/environment.hpp"
#include "hvd_contract/environment.h"

#include <algorithm>
#include <string_view>

#include <unistd.h>

namespace libhvd {
namespace {

// With zeros in front, so that the names of `size` ranks sort.
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
    for (std::size_t at = 0; at < text_.size();) {
      const std::string_view rest = std::string_view(text_).substr(at);
      if (rest.substr(0, 2) == "{{" || rest.substr(0, 2) == "}}") {
        path_ += rest[0];
        at += 2;
      } else if (rest[0] == '{') {
        const std::size_t end = rest.find('}');
        if (end == std::string_view::npos) return wrong("\"{\" without \"}\"");
        HVD_TRY(const std::string value, value_of(rest.substr(1, end - 1)));
        path_ += value;
        at += end + 1;
      } else if (rest[0] == '}') {
        return wrong("\"}\" without \"{\"; a brace itself is written twice");
      } else {
        path_ += rest[0];
        ++at;
      }
    }
    if (topology_.size > 1 && !tells_ranks_apart())
      return wrong("all ranks would have one file; put {rank} into it");
    return path_;
  }

 private:
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

  bool tells_ranks_apart() const {
    return has_rank_ || (has_local_rank_ && (has_host_ || topology_.node_count == 1));
  }

  Error wrong(const std::string& what) const {
    return fail(HVD_ERROR_INVALID_ARGUMENT, "file name \"" + text_ + "\": " + what);
  }

  const std::string& text_;
  const Topology& topology_;
  const Environment& environment_;
  std::string path_;
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
