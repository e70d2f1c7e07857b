/* The status page: memory that a rank and its agent share.
 *
 * The agent creates it and passes its path to the rank in HVD_STATUS ("PATH@OFFSET", see
 * variables.h). The rank maps it and writes. The agent may read it at any time, also while the rank
 * hangs or after it was killed. There are no locks. A single field is written with one relaxed
 * atomic store. Fields that belong together (a name and its start time) are guarded by a sequence
 * number that is odd during a write (a seqlock): a reader that finds it odd or changed reads again,
 * and gives up after a few tries. Times are CLOCK_MONOTONIC nanoseconds of the host on which both
 * run.
 *
 * Only the rank writes the rank's section, and only the agent writes the agent's section. A rank
 * must work in the same way without a page.
 *
 * Pages in a file begin at multiples of HVD_STATUS_DISTANCE, so that a page can be mapped by itself
 * whatever the size of the system's own pages is (64 KiB on POWER and on some of aarch64).
 *
 * Only the first HVD_STATUS_HEAD_SIZE bytes have memory from the start. The rest is the room for
 * the failure's text, which most ranks never need. A rank allocates it (fallocate) before it
 * touches it, and the agent reads it only if failure_length is not 0. Touching it otherwise may be
 * a SIGBUS if memory is short.
 *
 * A section with a seqlock has been written if its sequence is not 0.
 *
 * Version rule: `magic` and `version` never move. A reader refuses another version. Fields may be
 * added in a section's reserved space, or at the end, without a new version. They are 0 until they
 * are written.
 */
#ifndef HVD_COMMON_STATUS_PAGE_H_
#define HVD_COMMON_STATUS_PAGE_H_

#include <stdint.h>

#define HVD_STATUS_MAGIC 0x5355544154534448ull /* "HDSTATUS" in memory, little endian */
#define HVD_STATUS_VERSION 2u
#define HVD_STATUS_PAGE_SIZE 20480u
#define HVD_STATUS_DISTANCE 65536u /* from one page in a file to the next */
#define HVD_STATUS_HEAD_SIZE 4096u
#define HVD_STATUS_NAME_SIZE 256u
#define HVD_STATUS_ERROR_SIZE 1536u
#define HVD_STATUS_FAILURE_SIZE 16384u
#define HVD_STATUS_EPOCHS 10u           /* the latest completed ones */
#define HVD_STATUS_METRICS 6u           /* names of metrics */
#define HVD_STATUS_METRIC_NAME_SIZE 24u /* with the NUL */

/* Bits of hvd_status_page.notices: set by the agent, never cleared. */
#define HVD_NOTICE_STOP 0x1u      /* stop at the next step boundary */
#define HVD_NOTICE_TIME_LEFT 0x2u /* deadline_ns is the time by which the job must end */

/* Bits of hvd_status_page.launcher_duties: what the launcher does so that the rank need not. */
#define HVD_LAUNCHER_TELLS_STALLS 0x1u /* it prints which ranks others wait for in a collective */

typedef struct hvd_status_epoch {
  uint64_t epoch; /* its number in the program */
  uint64_t duration_ns;
  uint64_t samples; /* that this rank trained on in it */
} hvd_status_epoch;

typedef struct hvd_status_metric {
  char name[HVD_STATUS_METRIC_NAME_SIZE]; /* "loss", NUL terminated, UTF-8 */
  double value;
} hvd_status_metric;

typedef struct hvd_status_page {
  uint64_t magic;
  uint32_t version;
  uint32_t page_size;

  /* The rank's section. */
  uint32_t pid;           /* of the process that attached; 0 until then */
  uint32_t attached;      /* 1 after hvd_init, 2 after a clean hvd_shutdown */
  uint64_t step;          /* training steps done */
  uint64_t epoch;         /* the current epoch, counted from 0 */
  uint64_t samples;       /* samples that this rank has trained on */
  uint64_t collectives;   /* completed ones that were shown below */
  uint64_t collective_ns; /* in collectives, waiting included */
  uint64_t waiting_ns;    /* of that, waiting for other ranks */

  /* The blocking collective in progress. A rank may show one only when it waits for other ranks. */
  uint32_t collective_sequence; /* seqlock of the next three */
  uint32_t collective_active;   /* 1 while one is in progress */
  uint64_t collective_start_ns;
  char collective_name[HVD_STATUS_NAME_SIZE]; /* "allreduce grad.3", NUL terminated */

  uint32_t error_sequence; /* seqlock of the next two, and of error_of_peer */
  uint32_t error_length;
  char error_text[HVD_STATUS_ERROR_SIZE]; /* the last error, NUL terminated, UTF-8 */

  /* The collective in the background that has waited longest for other ranks. A rank may write it
   * only after a while. */
  uint32_t background_sequence; /* seqlock of the next five */
  uint32_t background_active;   /* 1 while there is such a collective */
  uint64_t backgrounds;         /* how many that were written here have completed */
  uint64_t background_start_ns;
  char background_name[HVD_STATUS_NAME_SIZE];    /* "allreduce grad.3", NUL terminated */
  char background_missing[HVD_STATUS_NAME_SIZE]; /* ranks that have not submitted it: "2,5-7" */

  /* How long epochs took. An epoch is added when it is over: when the program begins another one,
   * or shuts down cleanly. */
  uint32_t epochs_sequence;  /* seqlock of the next two */
  uint32_t metrics_sequence; /* seqlock of `metrics` */
  uint64_t epochs_over;      /* number of completed epochs; the i-th is at i % EPOCHS */
  hvd_status_epoch epochs[HVD_STATUS_EPOCHS];

  /* Metrics that the program reports (loss, accuracy), one entry per name; "" after the last. */
  hvd_status_metric metrics[HVD_STATUS_METRICS];

  /* 1: the ranks have agreed to stop before the program's end because of a signal, a notice or too
   * little time, and not because the program wanted to. */
  uint32_t had_to_stop;

  /* Set if the rank ends because of a failure; the reason is text after the head. For a program
   * that exits without hvd_shutdown after an error, libhvd reports it without a text: then
   * error_text is the reason. */
  uint32_t failure_sequence;        /* seqlock of the next three and the text */
  uint32_t failure_length;          /* of the text without its NUL; 0 without a text */
  uint32_t failure_because_of_peer; /* 1: only because another rank died or left before */
  uint64_t failure_ns;              /* when the rank reported it; 0 if it has not */

  uint32_t error_of_peer; /* 1: error_text says that another rank died or left */
  char rank_reserved[32];

  /* The agent's section. */
  uint32_t notice_sequence; /* one more with each notice; also a futex word */
  uint32_t notices;         /* HVD_NOTICE_ bits */
  uint64_t deadline_ns;     /* CLOCK_MONOTONIC; 0: unknown */
  uint64_t stop_at_step;    /* with HVD_NOTICE_STOP: the step to stop at; 0 for the next */
  uint32_t launcher_duties; /* HVD_LAUNCHER_ bits; set before the rank starts, constant */
  uint32_t rank_pid;        /* of the process that the agent has started; 0 until known */

  /* The rank's section, continued: how far the training is. Single fields; 0: not known. */
  uint64_t steps_in_all;
  uint64_t epochs_in_all;
  uint64_t progress_ns;      /* when `step` or `samples` was last reported */
  uint64_t first_samples;    /* `samples` after the first report of samples, */
  uint64_t first_samples_ns; /* and the time of that report */
  uint32_t epoch_begun;      /* 1: `epoch` was reported */

  /* In a job that continues when ranks are lost (hvdrun --min-np); otherwise 0. */
  uint32_t generation; /* that the rank is in, or was in last */
  uint64_t commits;    /* of the rank's state, in all generations */
} hvd_status_page;

/* Returns the address of the failure's text, after the head of the page: HVD_STATUS_FAILURE_SIZE
 * bytes, NUL terminated, UTF-8. */
static inline char* hvd_status_failure_text(hvd_status_page* page) {
  return (char*)page + HVD_STATUS_HEAD_SIZE;
}

#ifdef __cplusplus
static_assert(sizeof(hvd_status_page) <= HVD_STATUS_HEAD_SIZE, "the head must hold it");
static_assert(HVD_STATUS_HEAD_SIZE + HVD_STATUS_FAILURE_SIZE == HVD_STATUS_PAGE_SIZE, "no gap");
#else
_Static_assert(sizeof(hvd_status_page) <= HVD_STATUS_HEAD_SIZE, "the head must hold it");
_Static_assert(HVD_STATUS_HEAD_SIZE + HVD_STATUS_FAILURE_SIZE == HVD_STATUS_PAGE_SIZE, "no gap");
#endif

#endif /* HVD_COMMON_STATUS_PAGE_H_ */
