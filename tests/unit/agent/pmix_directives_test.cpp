#include "agent/pmix_directives.hpp"

#include <cstring>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

pmix_info_t info(const char* key, pmix_data_type_t type) {
  pmix_info_t made{};
  std::strncpy(made.key, key, PMIX_MAX_KEYLEN);
  made.value.type = type;
  return made;
}

pmix_proc_t proc(const char* nspace, pmix_rank_t rank) {
  pmix_proc_t made{};
  std::strncpy(made.nspace, nspace, PMIX_MAX_NSLEN);
  made.rank = rank;
  return made;
}

TEST(PmixDirectives, TimeoutIsReadFromAnyIntegerType) {
  pmix_info_t infos[] = {info(PMIX_COLLECT_DATA, PMIX_BOOL), info(PMIX_TIMEOUT, PMIX_INT)};
  infos[1].value.data.integer = 5;
  EXPECT_EQ(timeout_of(infos, 2), std::chrono::seconds(5));
  EXPECT_EQ(timeout_of(infos, 1), std::nullopt);
  EXPECT_EQ(timeout_of(nullptr, 0), std::nullopt);
  infos[1] = info(PMIX_TIMEOUT, PMIX_UINT32);
  infos[1].value.data.uint32 = 7;
  EXPECT_EQ(timeout_of(infos, 2), std::chrono::seconds(7));
}

TEST(PmixDirectives, InvalidTimeoutIsNoLimit) {
  pmix_info_t limit = info(PMIX_TIMEOUT, PMIX_INT);
  EXPECT_EQ(timeout_of(&limit, 1), std::nullopt);
  limit.value.data.integer = -1;
  EXPECT_EQ(timeout_of(&limit, 1), std::nullopt);
  limit = info(PMIX_TIMEOUT, PMIX_UINT64);
  limit.value.data.uint64 = UINT64_MAX / 2;
  EXPECT_EQ(timeout_of(&limit, 1), std::nullopt);
  limit = info(PMIX_TIMEOUT, PMIX_STRING);
  EXPECT_EQ(timeout_of(&limit, 1), std::nullopt);
}

TEST(PmixDirectives, LocalStatusDefaultsToSuccess) {
  EXPECT_EQ(local_status_of(nullptr, 0), PMIX_SUCCESS);
  pmix_info_t status = info(PMIX_LOCAL_COLLECTIVE_STATUS, PMIX_STATUS);
  status.value.data.status = PMIX_ERR_PARTIAL_SUCCESS;
  EXPECT_EQ(local_status_of(&status, 1), PMIX_ERR_PARTIAL_SUCCESS);
}

TEST(PmixDirectives, RanksAreSortedWithoutDuplicates) {
  const pmix_proc_t procs[] = {proc("job", 3), proc("job", 1), proc("job", 3)};
  EXPECT_EQ(ranks_of(procs, 3, "job"), (std::vector<std::uint32_t>{1, 3}));
}

TEST(PmixDirectives, WildcardRankIsAnEmptyList) {
  const pmix_proc_t procs[] = {proc("job", 3), proc("job", PMIX_RANK_WILDCARD)};
  EXPECT_EQ(ranks_of(procs, 2, "job"), std::vector<std::uint32_t>{});
}

TEST(PmixDirectives, RanksOfAnotherJobAreRefused) {
  const pmix_proc_t procs[] = {proc("job", 3), proc("other", 1)};
  EXPECT_EQ(ranks_of(procs, 2, "job"), std::nullopt);
}

}  // namespace
}  // namespace hvdrun
