/* These are C headers: compiled here as C11 with all warnings. */
#include <hvd/elastic.h>
#include <hvd/hvd.h>

int use_the_header_from_c(void);

int use_the_header_from_c(void) {
  hvd_options options = {.struct_size = sizeof(hvd_options), .name = "from C"};
  double value = 2.5;
  if (hvd_status_string(HVD_OK)[0] == 0) return 6;
  if (hvd_init() != HVD_OK) return 1;
  if (hvd_allreduce(&value, &value, 1, HVD_FLOAT64, HVD_SUM, &options) != HVD_OK) return 2;
  if (hvd_barrier(0) != HVD_OK) return 3;
  if (hvd_shutdown() != HVD_OK) return 4;
  return value == 2.5 ? 0 : 5;
}
