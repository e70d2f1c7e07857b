/* hvd/checkpoint.h is C11, too. */
#include <hvd/checkpoint.h>

int checkpoint_header_compiles_as_c(void);
int checkpoint_header_compiles_as_c(void) {
  const hvd_checkpoints_options options = {.struct_size = sizeof options, .keep_last = 3};
  const hvd_item item = {.name = "step", .type = HVD_INT64, .bytes = 8};
  return options.keep_last + (int)item.bytes;
}
