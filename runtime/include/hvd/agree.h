/* libhvd: decisions that all ranks take together. The C ABI; see hvd.h for statuses and errors.
 *
 * A rank that stops one step before the others leaves them waiting. So what ends or turns the
 * training (a metric, a signal, the clock) is decided here once, and is the same on all ranks at
 * the same step. Every function but hvd_watch_signal and hvd_stop_text is a collective.
 */
#ifndef HVD_AGREE_H_
#define HVD_AGREE_H_

#include "hvd/hvd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Metrics ------------------------------------------------------------------------------ */

/* values[i] = sum over ranks of weight * values[i], divided by the sum of weights, for `count`
 * values, the same on all ranks. The weight is what the value was averaged over, usually samples: a
 * mean of means is wrong when ranks have different numbers of them. A rank with weight 0 may have
 * anything in its values, also NaN. Otherwise NaN and infinities show in the result.
 * HVD_ERROR_INVALID_ARGUMENT on all ranks: a weight that is negative or not finite; all weights 0.
 */
HVD_API hvd_status hvd_average_metrics(double* values, size_t count, double weight,
                                       const hvd_options* options);

/* ---- Early stopping ----------------------------------------------------------------------- */

/* Whether a metric still gets better. Set struct_size, the settings, and all else to zero; after
 * that the fields below belong to hvd_early_stopping_update. Plain numbers, to be put into a
 * checkpoint: with them a run that goes on from it decides as if it had never stopped. */
typedef struct hvd_early_stopping {
  size_t struct_size;
  /* Settings, the same on all ranks. */
  hvd_best best_is; /* HVD_BEST_MIN or HVD_BEST_MAX */
  int32_t reserved;
  int64_t patience; /* stop after so many updates in a row without a better value; 0: never */
  double min_delta; /* a value is better when it is so by more than this; at least 0 */
  /* State. */
  int64_t updates; /* so far */
  int64_t best_at; /* the best value's update, counted from 0; meaningless before the first */
  double best;
  int64_t waited; /* updates since the best */
} hvd_early_stopping;

/* One more value. Rank 0's `metric` and rank 0's state decide, and are the state on all ranks
 * afterwards. *is_best: this is the best so far; *stop: `patience` is at its end (either may be
 * null). NaN is never better; nor is an infinity on the good side, which is a mistake of the
 * program
 * (-infinity as a loss); so a run that has diverged stops. */
HVD_API hvd_status hvd_early_stopping_update(hvd_early_stopping* state, double metric, int* is_best,
                                             int* stop, const hvd_options* options);

/* ---- Stopping in good order --------------------------------------------------------------- */

/* From now on `signum` does not end this process but is remembered for hvd_agree_stop. SIGINT only
 * once: a second Ctrl-C ends it. hvd_shutdown restores the handler that was there before. If the
 * ranks have stopped on this signal, and it would end the process, hvd_shutdown ignores it instead
 * (SIGINT excepted): it may reach some ranks only then. Not a collective; between hvd_init and
 * hvd_shutdown. Error: SIGKILL, SIGSTOP, the signals of a crash, a number that is no signal. Under
 * hvdrun, SIGUSR1, SIGUSR2 and what stops the job (SIGTERM, SIGINT) reach every rank; the time
 * between that and SIGKILL is `hvdrun --grace`. */
HVD_API hvd_status hvd_watch_signal(int signum);

/* Bits of hvd_stop.reasons. */
#define HVD_STOP_SIGNAL 0x1u /* a watched signal came to some rank */
#define HVD_STOP_NOTICE 0x2u /* the launcher asked for it, see HVD_NOTICE_STOP */
#define HVD_STOP_TIME 0x4u   /* the job's time is nearly up */
#define HVD_STOP_WISH 0x8u   /* some rank's program asked for it */

typedef struct hvd_stop {
  size_t struct_size;
  uint32_t reasons;    /* 0: go on */
  int32_t signum;      /* with HVD_STOP_SIGNAL: which; the highest when there were several */
  double seconds_left; /* the least of all ranks; infinity when not known */
} hvd_stop;

/* Asks all ranks, at a step's end, whether to stop, and gives the same answer to all. `step`: how
 * many are done (for HVD_NOTICE_STOP at a step). `seconds_needed`: stop when less than this is left
 * until the end of the job (hvd_time_left), at least what the last checkpoint will take. `wish`:
 * not 0 when this rank's program wants to stop. Costs one small allreduce. `stop` must have its
 * struct_size set. */
HVD_API hvd_status hvd_agree_stop(uint64_t step, double seconds_needed, int wish, hvd_stop* stop,
                                  const hvd_options* options);

/* The answer in words, "signal 15 (SIGTERM)": at most `size` bytes with the NUL into `text`, cut if
 * need be. "" when there is no reason to stop. Not a collective. */
HVD_API hvd_status hvd_stop_text(const hvd_stop* stop, char* text, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* HVD_AGREE_H_ */
