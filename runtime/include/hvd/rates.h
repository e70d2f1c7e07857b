/* libhvd: learning rates for many ranks. The C ABI; see hvd.h for statuses. All functions are pure,
 * work without hvd_init and from any thread. docs/train/learning-rates.md says which to use.
 *
 * With N ranks and the same batch on each, a step averages over N times as many samples, and an
 * epoch has N times fewer steps. A program either raises the rate (hvd_scale_rate, with
 * hvd_warmup), or divides the batch among the ranks and changes nothing else (hvd_local_batch).
 */
#ifndef HVD_RATES_H_
#define HVD_RATES_H_

#include "hvd/hvd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the rate grows with the number of ranks (the size). */
typedef int32_t hvd_scaling;
enum {
  HVD_SCALING_NONE = 0,      /* times 1 */
  HVD_SCALING_LINEAR = 1,    /* times size: Goyal et al. 2017, arXiv:1706.02677, section 2.1 */
  HVD_SCALING_SQRT = 2,      /* times size^(1/2): Krizhevsky 2014, arXiv:1404.5997; Hoffer et
                                al. 2017, arXiv:1705.08741 */
  HVD_SCALING_TWO_THIRDS = 3 /* times size^(2/3): between the two; used in practice, without a paper
                                that derives it */
};

/* Computes the rate for `size` ranks, each with the batch for which `rate` was chosen on one rank.
 * HVD_ERROR_INVALID_ARGUMENT: a size below 1; a rate that is negative, not finite, or not finite
 * after scaling; an unknown scaling. */
HVD_API hvd_status hvd_scale_rate(double rate, int64_t size, hvd_scaling scaling, double* scaled);

/* Reads a name: "none", "linear", "sqrt" or "two-thirds". HVD_ERROR_INVALID_ARGUMENT: another name.
 */
HVD_API hvd_status hvd_parse_scaling(const char* name, hvd_scaling* scaling);

/* Returns the name of a scaling; null if there is no such scaling. */
HVD_API const char* hvd_scaling_name(hvd_scaling scaling);

/* Computes the rate of a step in a warm-up of `steps` steps. The rate is `from` at step 0, changes
 * by the same amount at each step, and is `to` at step `steps` and later. With 0 steps it is `to`.
 * Source: Goyal et al. 2017, section 2.2: over 5 epochs, from the rate for one rank to the scaled
 * one. HVD_ERROR_INVALID_ARGUMENT: a rate that is negative or not finite; a negative step or steps.
 */
HVD_API hvd_status hvd_warmup(double from, double to, int64_t step, int64_t steps, double* rate);

/* Computes how many of the `batch` samples are `rank`'s when the batch is divided as evenly as
 * possible among `size` ranks. The parts of all ranks add up to the batch. hvd_shard divides
 * batches in the same way.
 *   Parts may differ by one sample, so the average of the ranks' averages is not the average of the
 * batch. Sum the gradients of the samples over all ranks instead, and divide by the batch. Then the
 * rate for one rank is right at every size.
 *   HVD_ERROR_INVALID_ARGUMENT: a batch or size below 1; a rank outside 0 ... size-1. */
HVD_API hvd_status hvd_local_batch(int64_t batch, int32_t rank, int32_t size, int64_t* samples);

#ifdef __cplusplus
}
#endif

#endif /* HVD_RATES_H_ */
