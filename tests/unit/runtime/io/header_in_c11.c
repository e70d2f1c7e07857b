/* The headers around the training loop are C headers: compiled here as C11 with all warnings. */
#include <hvd/agree.h>
#include <hvd/io.h>

int use_the_headers_from_c(void);

int use_the_headers_from_c(void) {
  hvd_stop stop = {sizeof(hvd_stop), 0, 0, 0};
  return hvd_agree_stop(1, 0, 0, &stop, 0) == HVD_OK && stop.reasons == 0 ? 0 : 1;
}
