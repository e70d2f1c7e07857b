#include "bootstrap/job_secret.hpp"

#include "common/net/tls.hpp"
#include "common/text.hpp"
#include "common/variables.h"

#include <cstddef>
#include <utility>

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

Result<bool> read_data_tls(const Environment& environment) {
  HVD_TRY(const auto number, read_integer(environment, HVD_ENV_DATA_TLS, 0, 1));
  return number == 1;
}

Result<void> check_encryption(const Environment& environment) {
  HVD_TRY(const auto key, read_job_key(environment));
  if (key.empty())
    return fail(HVD_ERROR_ENVIRONMENT,
                HVD_ENV_DATA_TLS "=1 needs the secret that " HVD_ENV_JOB_KEY
                                 " holds, which hvdrun sets; without hvdrun give all ranks the "
                                 "same 64 hexadecimal digits");
  if (const auto available = Tls::check_available(); !available.ok())
    return fail(HVD_ERROR_UNSUPPORTED, HVD_ENV_DATA_TLS "=1: " + available.error());
  return {};
}

Error other_encryption(const std::string& with, const std::string& without) {
  return fail(HVD_ERROR_ENVIRONMENT, HVD_ENV_DATA_TLS " is 1 on " + with + " and 0 on " + without +
                                         ": give all ranks the same");
}

}  // namespace libhvd
