// Compares our declarations of NCCL with its header.
#include "declarations.hpp"
#include "gpu/nccl_library.hpp"

#include <cstddef>

#include <gtest/gtest.h>
#include <nccl.h>

namespace libhvd {
namespace {

using test::Alike;

#define HVD_COMPARE(name, parameters) \
  static_assert(Alike<decltype(&::name), decltype(NcclLibrary::name)>::value, #name);
HVD_NCCL_FUNCTIONS(HVD_COMPARE)

static_assert(static_cast<int>(NcclStatus::in_progress) == ncclInProgress);
static_assert(static_cast<int>(NcclStatus::remote_error) == ncclRemoteError);
static_assert(static_cast<int>(NcclType::int8) == ncclInt8);
static_assert(static_cast<int>(NcclType::uint8) == ncclUint8);
static_assert(static_cast<int>(NcclType::int32) == ncclInt32);
static_assert(static_cast<int>(NcclType::int64) == ncclInt64);
static_assert(static_cast<int>(NcclType::float16) == ncclFloat16);
static_assert(static_cast<int>(NcclType::float32) == ncclFloat32);
static_assert(static_cast<int>(NcclType::float64) == ncclFloat64);
static_assert(static_cast<int>(NcclType::bfloat16) == ncclBfloat16);
static_assert(static_cast<int>(NcclOp::sum) == ncclSum);
static_assert(static_cast<int>(NcclOp::product) == ncclProd);
static_assert(static_cast<int>(NcclOp::max) == ncclMax);
static_assert(static_cast<int>(NcclOp::min) == ncclMin);
static_assert(static_cast<int>(NcclOp::average) == ncclAvg);
static_assert(kNcclScalarOnHost == ncclScalarHostImmediate);
static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));

TEST(Declarations, ConfigurationHasTheMagicNumberOfNccl) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(NcclConfig().magic, theirs.magic);
}

}  // namespace
}  // namespace libhvd
