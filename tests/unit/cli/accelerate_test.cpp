#include "cli/accelerate.hpp"

#include <gtest/gtest.h>

namespace hvdrun::cli {
namespace {

// A file that `accelerate config` of version 0.34 has written.
constexpr const char* kFsdp = R"(compute_environment: LOCAL_MACHINE
debug: false
distributed_type: FSDP
downcast_bf16: 'no'
enable_cpu_affinity: true
fsdp_config:
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_backward_prefetch: BACKWARD_PRE
  fsdp_offload_params: False
  fsdp_sharding_strategy: FULL_SHARD
  fsdp_transformer_layer_cls_to_wrap: "Block,Layer"
machine_rank: 0
mixed_precision: bf16
num_machines: 1
num_processes: 8
tpu_env: []
use_cpu: false
)";

TEST(AccelerateVariables, AreThoseThatAccelerateLaunchSets) {
  const auto got = accelerate_variables(kFsdp);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, (Environment{{"ACCELERATE_CPU_AFFINITY", "1"},
                               {"ACCELERATE_MIXED_PRECISION", "bf16"},
                               {"ACCELERATE_USE_CPU", "false"},
                               {"ACCELERATE_USE_FSDP", "true"},
                               {"FSDP_AUTO_WRAP_POLICY", "TRANSFORMER_BASED_WRAP"},
                               {"FSDP_BACKWARD_PREFETCH", "BACKWARD_PRE"},
                               {"FSDP_OFFLOAD_PARAMS", "false"},
                               {"FSDP_SHARDING_STRATEGY", "FULL_SHARD"},
                               {"FSDP_TRANSFORMER_CLS_TO_WRAP", "Block,Layer"}}));
}

TEST(AccelerateVariables, IncludeThoseOfDeepSpeed) {
  const auto got = accelerate_variables(
      "deepspeed_config:\n  gradient_accumulation_steps: 4\n  offload_param_device: none\n"
      "  zero3_init_flag: True\n  zero_stage: 3\ndistributed_type: DEEPSPEED\n"
      "dynamo_config:\n  dynamo_backend: inductor\ngpu_ids: null  # all\n");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, (Environment{{"ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", "none"},
                               {"ACCELERATE_DEEPSPEED_ZERO3_INIT", "true"},
                               {"ACCELERATE_DEEPSPEED_ZERO_STAGE", "3"},
                               {"ACCELERATE_DYNAMO_BACKEND", "INDUCTOR"},
                               {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4"},
                               {"ACCELERATE_USE_DEEPSPEED", "true"}}));
}

TEST(AccelerateVariables, InvalidLineIsAnErrorWithItsNumber) {
  for (const char* text : {"a: 1\nnonsense\n", "a: 1\n  b: 2\n", "a: 1\n: 2\n"}) {
    const auto got = accelerate_variables(text);
    ASSERT_FALSE(got) << text;
    EXPECT_EQ(got.error().message, "line 2 is no \"name: value\"");
  }
}

TEST(AccelerateConfig, IsSearchedInTheFoldersOfAccelerate) {
  EXPECT_EQ(accelerate_config({{"HF_HOME", "/f"}, {"HOME", "/h"}}),
            "/f/accelerate/default_config.yaml");
  EXPECT_EQ(accelerate_config({{"XDG_CACHE_HOME", "/c"}, {"HOME", "/h"}}),
            "/c/huggingface/accelerate/default_config.yaml");
  EXPECT_EQ(accelerate_config({{"HOME", "/h"}}),
            "/h/.cache/huggingface/accelerate/default_config.yaml");
  EXPECT_EQ(accelerate_config({}), "");
}

}  // namespace
}  // namespace hvdrun::cli
