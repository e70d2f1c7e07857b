/* The data headers compile as C11, and their constants can be used. */
#include <hvd/data.h>
#include <hvd/rates.h>

int use_the_data_headers_from_c(void) {
  hvd_shard_options options = {sizeof(hvd_shard_options), 10, 4, 0, 1, 1,
                               HVD_REMAINDER_UNEVEN,      0,  2};
  hvd_shard* shard = NULL;
  const int64_t* indices = NULL;
  size_t count = 0;
  double rate = 0;
  if (hvd_shard_create(&options, &shard) != HVD_OK) return 1;
  if (hvd_shard_step(shard, 0, &indices, &count) != HVD_OK || count != 2) return 2;
  hvd_shard_free(shard);
  if (hvd_scale_rate(0.1, 4, HVD_SCALING_LINEAR, &rate) != HVD_OK) return 3;
  return 0;
}
