#include "bootstrap/job_key.hpp"

#include "base/hex.hpp"
#include "hvd_contract/environment.h"

namespace libhvd {

Result<std::vector<std::uint8_t>> read_job_key(const Environment& environment) {
  constexpr std::size_t kKeyBytes = 32;
  const auto text = environment(HVD_ENV_JOB_KEY);
  if (!text || text->empty()) return std::vector<std::uint8_t>();
  auto key = from_hex(*text);
  if (!key || key->size() != kKeyBytes) {
    return fail(HVD_ERROR_ENVIRONMENT, HVD_ENV_JOB_KEY " is not 64 hexadecimal digits");
  }
  return std::move(*key);
}

}  // namespace libhvd
