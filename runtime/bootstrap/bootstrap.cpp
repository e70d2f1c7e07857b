#include "bootstrap/bootstrap.hpp"

#include "common/variables.h"

namespace libhvd {
namespace {

class SingleBootstrap final : public Bootstrap {
 public:
  const RankInfo& info() const override { return info_; }
  Result<std::vector<std::string>> exchange(const std::string& own) override {
    return std::vector<std::string>{own};
  }

 private:
  RankInfo info_{0, 1, 0, 1, 0, 1};
};

}  // namespace

std::unique_ptr<Bootstrap> open_single_bootstrap() {
  return std::make_unique<SingleBootstrap>();
}

Result<std::unique_ptr<Bootstrap>> open_bootstrap(const Environment& environment,
                                                  const BootstrapOptions& options) {
  if (is_set(environment, "PMIX_NAMESPACE") && is_set(environment, "PMIX_RANK")) {
    return open_pmix_bootstrap(environment, options);
  }
  for (const char* name : {HVD_ENV_RANK, HVD_ENV_SIZE, "RANK", "WORLD_SIZE"}) {
    if (is_set(environment, name)) return open_environment_bootstrap(environment, options);
  }
  HVD_CHECK(choose_ranks(options.ranks, RankInfo()));  // the only possible list is {0}
  return open_single_bootstrap();
}

}  // namespace libhvd
