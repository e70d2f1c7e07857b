/* timeline.h is a C header: compiled here as C11 with all warnings. */
#include <hvd/timeline.h>

int use_the_timeline_from_c(const char* path);

int use_the_timeline_from_c(const char* path) {
  if (hvd_start_timeline(path) != HVD_OK) return 1;
  if (hvd_timeline_begin("from C") != HVD_OK) return 2;
  if (hvd_timeline_end() != HVD_OK) return 3;
  return hvd_stop_timeline() == HVD_OK ? 0 : 4;
}
