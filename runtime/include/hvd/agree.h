/* libhvd: decisions that all ranks take together. The C ABI; see hvd.h for statuses and errors.
 *
 * If one rank stops a step before the others, they wait for it. So a decision that ends or changes
 * the training (by a metric, a signal or the clock) is taken here once, with the same result on all
 * ranks at the same step. Every function except hvd_watch_signal and hvd_stop_text is a collective.
 */
#ifndef HVD_AGREE_H_
#define HVD_AGREE_H_

#include "hvd/hvd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Metrics ------------------------------------------------------------------------------ */

/* Averages `count` values over all ranks, in place: values[i] = sum over ranks of weight *
 * values[i], divided by the sum of the weights. `count` is the same on all ranks. The weight is the
 * number of things that the values are averages of, usually samples: a mean of means is wrong if
 * ranks have different numbers of samples. The values of a rank with weight 0 are ignored, even if
 * NaN. Other NaNs and infinities appear in the result.
 *   HVD_ERROR_INVALID_ARGUMENT on all ranks: a weight is negative or not finite; all weights are 0.
 */
HVD_API hvd_status hvd_average_metrics(double* values, size_t count, double weight,
                                       const hvd_options* options);

/* ---- Early stopping ----------------------------------------------------------------------- */

/* Watches whether a metric still gets better. Set struct_size and the settings, and all other
 * fields to zero; after that hvd_early_stopping_update changes the state. All fields are plain
 * numbers, so a checkpoint can hold them: a run that resumes with them decides as if it had never
 * stopped. */
typedef struct hvd_early_stopping {
  size_t struct_size;
  /* Settings, the same on all ranks. */
  union {
    hvd_best mode;    /* HVD_BEST_MIN or HVD_BEST_MAX */
    hvd_best best_is; /* deprecated: the earlier name of `mode` */
  };
  int32_t reserved;
  int64_t patience; /* stop after this many updates in a row without a better value; 0: never */
  double min_delta; /* a value is better if it beats the best by more than this; 0 or more */
  /* State. */
  int64_t updates; /* so far */
  int64_t best_at; /* the update with the best value, counted from 0; undefined before the first */
  double best;
  union {
    int64_t updates_since_best;
    int64_t waited; /* deprecated: the earlier name of `updates_since_best` */
  };
} hvd_early_stopping;

/* Adds a value. Rank 0's `metric` and state decide, and all ranks get rank 0's new state. Sets
 * *is_best to 1 if this value is the best so far, and *stop to 1 if `patience` updates in a row
 * brought no better value; otherwise to 0. Either pointer may be null.
 *   NaN is never better. Nor is an infinity on the better side (-infinity as a loss), which is a
 * mistake in the program. So a run that has diverged stops.
 *   HVD_ERROR_INVALID_ARGUMENT on all ranks: a setting is not valid. */
HVD_API hvd_status hvd_early_stopping_update(hvd_early_stopping* state, double metric, int* is_best,
                                             int* stop, const hvd_options* options);

/* ---- Stopping together -------------------------------------------------------------------- */

/* Remembers `signum` for hvd_agree_stop from now on, instead of letting it end this process. SIGINT
 * is remembered once: a second Ctrl-C ends the process. hvd_shutdown restores the earlier handler,
 * with one exception: if the ranks have agreed to stop on this signal, and it would end the
 * process, hvd_shutdown ignores the signal instead, because it may reach some ranks only then. The
 * exception does not apply to SIGINT.
 *   Not a collective. Call it between hvd_init and hvd_shutdown. HVD_ERROR_INVALID_ARGUMENT:
 * SIGKILL, SIGSTOP, a signal of a crash, or a number that is no signal. hvdrun sends SIGUSR1,
 * SIGUSR2 and the signals that stop the job (SIGTERM, SIGINT) to every rank. The time between these
 * and SIGKILL is `hvdrun --grace`. */
HVD_API hvd_status hvd_watch_signal(int signum);

/* Bits of hvd_stop.reasons. */
#define HVD_STOP_SIGNAL 0x1u             /* a rank received a watched signal */
#define HVD_STOP_NOTICE 0x2u             /* the launcher asked for it, see HVD_NOTICE_STOP */
#define HVD_STOP_TIME 0x4u               /* the job's time is nearly up */
#define HVD_STOP_REQUESTED 0x8u          /* a rank's program asked for it */
#define HVD_STOP_WISH HVD_STOP_REQUESTED /* deprecated: the earlier name */

/* The decision of hvd_agree_stop. Set struct_size to sizeof(hvd_stop) before the call. */
typedef struct hvd_stop {
  size_t struct_size;
  uint32_t reasons;    /* HVD_STOP_ bits; 0: continue */
  int32_t signum;      /* with HVD_STOP_SIGNAL: the signal; of several the highest */
  double seconds_left; /* the least of all ranks; infinity if not known */
} hvd_stop;

/* Decides at the end of a step whether all ranks stop. *stop is the same on all ranks. Costs one
 * small allreduce.
 *   `step`: how many steps are done (for HVD_NOTICE_STOP at a step). `seconds_needed`: the ranks
 * stop when less time than this is left until the end of the job (hvd_time_left); pass at least the
 * time that the last checkpoint will take. `requested`: not 0 if this rank's program wants to stop.
 *   HVD_ERROR_INVALID_ARGUMENT on all ranks: struct_size is not sizeof(hvd_stop); seconds_needed is
 * NaN. */
HVD_API hvd_status hvd_agree_stop(uint64_t step, double seconds_needed, int requested,
                                  hvd_stop* stop, const hvd_options* options);

/* Writes the reasons in words to `text`, "signal 15 (SIGTERM)"; "" if there is no reason to stop.
 * Writes at most `size` bytes including the NUL; a longer text is cut. Not a collective.
 * HVD_ERROR_INVALID_ARGUMENT: a null pointer, or a size of 0. */
HVD_API hvd_status hvd_stop_text(const hvd_stop* stop, char* text, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* HVD_AGREE_H_ */
