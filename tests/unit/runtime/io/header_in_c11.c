/* The headers around the training loop are C headers: compiled here as C11 with all warnings. */
#include <hvd/agree.h>
#include <hvd/io.h>

/* The earlier names are other names of the same members. */
_Static_assert(sizeof(hvd_early_stopping) == 64, "size of hvd_early_stopping");
_Static_assert(offsetof(hvd_early_stopping, mode) == offsetof(hvd_early_stopping, best_is), "mode");
_Static_assert(offsetof(hvd_early_stopping, updates_since_best) ==
                   offsetof(hvd_early_stopping, waited),
               "updates_since_best");
_Static_assert(offsetof(hvd_early_stopping, waited) == 56, "layout of hvd_early_stopping");
_Static_assert(HVD_STOP_WISH == HVD_STOP_REQUESTED, "HVD_STOP_WISH");

int use_the_headers_from_c(void);

int use_the_headers_from_c(void) {
  hvd_stop stop = {sizeof(hvd_stop), 0, 0, 0};
  return hvd_agree_stop(1, 0, 0, &stop, 0) == HVD_OK && stop.reasons == 0 ? 0 : 1;
}
