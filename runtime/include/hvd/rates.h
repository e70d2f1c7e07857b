/* libhvd: learning rates for many ranks. Pure functions; the C ABI, see hvd.h for statuses. They
 * need no hvd_init. docs/rates.md says which to take.
 *
 * With N ranks and the same batch on each, a step averages over N times as many samples and an
 * epoch has N times fewer steps. Either the rate is raised (hvd_scale_rate, with hvd_warmup), or
 * the batch is divided among the ranks and nothing else changes (hvd_local_batch).
 */
#ifndef HVD_RATES_H_
#define HVD_RATES_H_

#include "hvd/hvd.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t hvd_scaling;
enum {
  HVD_SCALING_NONE = 0,      /* times 1 */
  HVD_SCALING_LINEAR = 1,    /* times size: Goyal et al. 2017, arXiv:1706.02677, section 2.1 */
  HVD_SCALING_SQRT = 2,      /* times size^(1/2): Krizhevsky 2014, arXiv:1404.5997; Hoffer et
                                al. 2017, arXiv:1705.08741 */
  HVD_SCALING_TWO_THIRDS = 3 /* times size^(2/3): between the two; used in practice, without a paper
                                that derives it */
};

/* The rate for `size` ranks, each with the batch that `rate` was chosen for on one.
 * HVD_ERROR_INVALID_ARGUMENT: a size below 1; a rate that is negative, not finite, or not finite
 * once scaled; an unknown scaling. */
HVD_API hvd_status hvd_scale_rate(double rate, int64_t size, hvd_scaling scaling, double* scaled);

/* "none", "linear", "sqrt", "two-thirds". HVD_ERROR_INVALID_ARGUMENT: none of these. */
HVD_API hvd_status hvd_parse_scaling(const char* name, hvd_scaling* scaling);

/* The name; null when there is no such scaling. */
HVD_API const char* hvd_scaling_name(hvd_scaling scaling);

/* The rate of a step in a warm-up of `steps` steps: `from` at step 0, then the same amount more at
 * each step, `to` at step `steps` and after it (Goyal et al. 2017, section 2.2: over 5 epochs, from
 * the rate for one rank to the scaled one). 0 steps: `to`.
 * HVD_ERROR_INVALID_ARGUMENT: a rate that is negative or not finite; a negative step or steps. */
HVD_API hvd_status hvd_warmup(double from, double to, int64_t step, int64_t steps, double* rate);

/* Samples of a batch that are `rank`'s when it is divided as evenly as it goes; they add up to
 * exactly the batch over all ranks. The same division as hvd_shard makes.
 *   The parts may differ by one, so an average of the ranks' averages is not the batch's: sum the
 * gradients of samples, over all ranks, and divide by the batch. Then the rate of one rank is right
 * at every size. HVD_ERROR_INVALID_ARGUMENT: a batch or size below 1, a rank that is none. */
HVD_API hvd_status hvd_local_batch(int64_t batch, int32_t rank, int32_t size, int64_t* samples);

#ifdef __cplusplus
}
#endif

#endif /* HVD_RATES_H_ */
