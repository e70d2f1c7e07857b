// Reads hvd_init_options of any version into StartOptions.
#include "c_api/c_api.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

namespace libhvd {
namespace {

constexpr std::size_t kMostBytes = 4096;  // of a struct of options

Error wrong(const std::string& why) {
  return fail(HVD_ERROR_INVALID_ARGUMENT, why);
}

// Returns a copy of the options. Fields that an older caller's struct lacks are zero. Error:
// struct_size is out of range; a field that this version does not know is not zero.
Result<hvd_init_options> read_known(const hvd_init_options& options) {
  const std::size_t size = options.struct_size;
  if (size < sizeof(std::size_t) || size > kMostBytes)
    return wrong("hvd_init_options.struct_size is " + std::to_string(size) +
                 "; it must be sizeof(hvd_init_options)");
  const auto* bytes = reinterpret_cast<const unsigned char*>(&options);
  for (std::size_t i = sizeof options; i < size; ++i) {
    if (bytes[i] != 0)
      return wrong("hvd_init_options asks for what this version of libhvd cannot do");
  }
  hvd_init_options known{};
  std::memcpy(&known, &options, std::min(size, sizeof known));
  return known;
}

// Reads the process sets. An error in them becomes StartOptions::fault, which is an error on all
// ranks.
void read_process_sets(const hvd_init_options& options, StartOptions& read) {
  if (options.process_sets == nullptr && options.process_set_count > 0)
    read.fault = "the list of process sets is null";
  for (std::size_t i = 0; read.fault.empty() && i < options.process_set_count; ++i) {
    const hvd_rank_list& set = options.process_sets[i];
    if (set.ranks == nullptr && set.count > 0) {
      read.fault = "the ranks of process set " + std::to_string(i + 1) + " are null";
    } else {
      read.process_sets.emplace_back(set.ranks, set.ranks + set.count);
      std::sort(read.process_sets.back().begin(), read.process_sets.back().end());
    }
  }
}

}  // namespace

Result<StartOptions> read_start_options(const hvd_init_options* options) {
  StartOptions read;
  if (options == nullptr) return read;
  HVD_TRY(const hvd_init_options known, read_known(*options));
  if (known.ranks == nullptr && known.rank_count > 0) return wrong("the list of ranks is null");
  if (known.ranks != nullptr) read.ranks.emplace(known.ranks, known.ranks + known.rank_count);
  read_process_sets(known, read);
  return read;
}

}  // namespace libhvd
