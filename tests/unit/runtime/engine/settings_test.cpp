#include "engine/settings.hpp"

#include "support.hpp"

#include <gtest/gtest.h>

namespace libhvd {
namespace {

using std::chrono::milliseconds;
using Variables = std::map<std::string, std::string>;

EngineSettings settings_for(const Variables& variables) {
  const auto read = read_engine_settings(test::make_environment(variables));
  EXPECT_TRUE(read.ok()) << read.error().message;
  return read.ok() ? *read : EngineSettings{};
}

std::string error_for(const Variables& variables) {
  const auto read = read_engine_settings(test::make_environment(variables));
  if (read.ok()) return "no error";
  EXPECT_EQ(read.error().status, HVD_ERROR_ENVIRONMENT);
  return read.error().message;
}

void expect_defaults(const EngineSettings& settings) {
  EXPECT_EQ(settings.fusion.together, 65536u);
  EXPECT_EQ(settings.fusion.each, 4096u);
  EXPECT_FALSE(settings.autotune);
  EXPECT_EQ(settings.autotune_log, "");
  EXPECT_EQ(settings.cache_capacity, 4096u);
  EXPECT_TRUE(settings.stall_check);
  EXPECT_EQ(settings.stall_warning, milliseconds(60'000));
  EXPECT_EQ(settings.stall_error, milliseconds(0));
}

TEST(EngineSettings, HaveDefaults) {
  expect_defaults(settings_for({}));
  expect_defaults(settings_for({{"HVD_FUSION_THRESHOLD", ""}, {"HVD_CACHE_CAPACITY", ""}}));
}

TEST(EngineSettings, AreReadFromTheEnvironment) {
  const auto settings = settings_for({{"HVD_FUSION_THRESHOLD", "1048576"},
                                      {"HVD_FUSION_LARGEST", "8192"},
                                      {"HVD_AUTOTUNE", "1"},
                                      {"HVD_AUTOTUNE_LOG", "a.csv"},
                                      {"HVD_CACHE_CAPACITY", "0"},
                                      {"HVD_STALL_CHECK_DISABLE", "1"},
                                      {"HVD_STALL_CHECK_TIME_SECONDS", "0.25"},
                                      {"HVD_STALL_SHUTDOWN_TIME_SECONDS", "120"}});
  EXPECT_EQ(settings.fusion.together, 1048576u);
  EXPECT_EQ(settings.fusion.each, 8192u);
  EXPECT_TRUE(settings.autotune);
  EXPECT_EQ(settings.autotune_log, "a.csv");
  EXPECT_EQ(settings.cache_capacity, 0u);
  EXPECT_FALSE(settings.stall_check);
  EXPECT_EQ(settings.stall_warning, milliseconds(250));
  EXPECT_EQ(settings.stall_error, milliseconds(120'000));
}

TEST(EngineSettings, TinyTimesAreNotRoundedToZero) {
  EXPECT_EQ(settings_for({{"HVD_STALL_SHUTDOWN_TIME_SECONDS", "0.0001"}}).stall_error,
            milliseconds(1));
  EXPECT_EQ(settings_for({{"HVD_STALL_SHUTDOWN_TIME_SECONDS", "0.0"}}).stall_error,
            milliseconds(0));
}

TEST(EngineSettings, HorovodsVariablesApplyIfOursAreNotSet) {
  const auto horovods = settings_for({{"HOROVOD_FUSION_THRESHOLD", "134217728"},
                                      {"HOROVOD_AUTOTUNE", "1"},
                                      {"HOROVOD_AUTOTUNE_LOG", "b.csv"},
                                      {"HOROVOD_CACHE_CAPACITY", "1024"},
                                      {"HOROVOD_STALL_CHECK_DISABLE", "1"},
                                      {"HOROVOD_STALL_CHECK_TIME_SECONDS", "30"},
                                      {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "90"}});
  EXPECT_EQ(horovods.fusion.together, 134217728u);
  EXPECT_TRUE(horovods.autotune);
  EXPECT_EQ(horovods.autotune_log, "b.csv");
  EXPECT_EQ(horovods.cache_capacity, 1024u);
  EXPECT_FALSE(horovods.stall_check);
  EXPECT_EQ(horovods.stall_warning, milliseconds(30'000));
  EXPECT_EQ(horovods.stall_error, milliseconds(90'000));
  const auto both = settings_for({{"HVD_CACHE_CAPACITY", "7"},
                                  {"HOROVOD_CACHE_CAPACITY", "1024"},
                                  {"HVD_FUSION_THRESHOLD", ""},
                                  {"HOROVOD_FUSION_THRESHOLD", "4096"}});
  EXPECT_EQ(both.cache_capacity, 7u);
  EXPECT_EQ(both.fusion.together, 4096u);
}

TEST(EngineSettings, IgnoreTheNonePlaceholderOfHorovodrun) {
  expect_defaults(
      settings_for({{"HOROVOD_CACHE_CAPACITY", "(None,)"}, {"HOROVOD_FUSION_THRESHOLD", ""}}));
}

TEST(EngineSettings, IgnoreTheCycleTime) {
  expect_defaults(settings_for({{"HVD_CYCLE_TIME", "soon"}, {"HOROVOD_CYCLE_TIME", "(None,)"}}));
}

TEST(EngineSettings, InvalidValuesFailWithVariableAndValue) {
  EXPECT_EQ(error_for({{"HVD_FUSION_THRESHOLD", "64MB"}}),
            "HVD_FUSION_THRESHOLD=\"64MB\" is not an integer from 0 to 1099511627776");
  EXPECT_EQ(error_for({{"HVD_CACHE_CAPACITY", "-1"}}),
            "HVD_CACHE_CAPACITY=\"-1\" is not an integer from 0 to 2147483647");
  EXPECT_EQ(error_for({{"HVD_CACHE_CAPACITY", "(None,)"}}),
            "HVD_CACHE_CAPACITY=\"(None,)\" is not an integer from 0 to 2147483647");
  EXPECT_EQ(error_for({{"HVD_STALL_CHECK_DISABLE", "yes"}}),
            "HVD_STALL_CHECK_DISABLE=\"yes\" is not an integer from 0 to 1");
  EXPECT_EQ(error_for({{"HOROVOD_CACHE_CAPACITY", "many"}}),
            "HOROVOD_CACHE_CAPACITY=\"many\" is not an integer from 0 to 2147483647");
  for (const char* value : {"soon", "-1", "1e3", "nan", "inf", "1 ", "1000000001", "0x1"}) {
    EXPECT_EQ(error_for({{"HVD_STALL_CHECK_TIME_SECONDS", value}}),
              std::string("HVD_STALL_CHECK_TIME_SECONDS=\"") + value +
                  "\" is not a number of seconds from 0 to 1000000000");
  }
}

TEST(EngineSettings, IgnoreInvalidValuesOfOverriddenVariables) {
  EXPECT_EQ(
      settings_for({{"HVD_CACHE_CAPACITY", "7"}, {"HOROVOD_CACHE_CAPACITY", "x"}}).cache_capacity,
      7u);
}

}  // namespace
}  // namespace libhvd
