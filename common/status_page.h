/* The status page: a piece of memory that a rank and its agent share.
 *
 * The agent creates it and names it to the rank in HVD_STATUS ("PATH@OFFSET", see environment.h);
 * the rank maps it and writes; the agent reads it whenever it likes, also when the rank hangs or
 * was killed. Nobody locks. A single field is written with one relaxed atomic store; what belongs
 * together (a name and its start time) is guarded by a sequence number that is odd while the
 * writer is inside (a seqlock): a reader that finds it odd or changed reads again, and after a few
 * tries takes nothing. Times are CLOCK_MONOTONIC nanoseconds of the host that both run on.
 *
 * Who may write: the rank's section only the rank, the notice section only the agent. A rank must
 * work the same when there is no page.
 *
 * Pages in a file begin at multiples of HVD_STATUS_DISTANCE, so that a page can be mapped by itself
 * whatever the size of the system's own pages is (64 KiB on POWER and on some of aarch64).
 *
 * Only the first HVD_STATUS_HEAD_SIZE bytes have memory behind them from the start. The rest is the
 * room for the failure's text, which most ranks never need: a rank reserves it (fallocate) before
 * it touches it, and the agent looks there only when failure_length is not 0. Whoever touches it
 * otherwise may get a SIGBUS when memory is short.
 *
 * A section with a seqlock counts as written once its sequence is not 0.
 *
 * Version rule: `magic` and `version` never move. A reader refuses another version; fields may be
 * added at the end of a section's reserved space without a new version, and read 0 until written.
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
#define HVD_STATUS_EPOCHS 10u           /* the latest ones that are over */
#define HVD_STATUS_METRICS 6u           /* names of metrics */
#define HVD_STATUS_METRIC_NAME_SIZE 24u /* with the NUL */

/* Bits of hvd_status_page.notices: set by the agent, never cleared. */
#define HVD_NOTICE_STOP 0x1u      /* please stop at the next step boundary */
#define HVD_NOTICE_TIME_LEFT 0x2u /* deadline_ns holds the time when the job must be over */

/* Bits of hvd_status_page.launcher_duties: what the launcher does, and the rank need not. */
#define HVD_LAUNCHER_TELLS_STALLS 0x1u /* it says which ranks others wait for in a collective */

typedef struct hvd_status_epoch {
  uint64_t epoch; /* its number, as the program counts */
  uint64_t duration_ns;
  uint64_t samples; /* that this rank has trained on meanwhile */
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
  uint64_t collectives;   /* collectives completed */
  uint64_t collective_ns; /* in collectives, waiting included */
  uint64_t waiting_ns;    /* of that, waiting for other ranks */

  uint32_t collective_sequence; /* seqlock of the next three */
  uint32_t collective_active;   /* 1 while one is in progress */
  uint64_t collective_start_ns;
  char collective_name[HVD_STATUS_NAME_SIZE]; /* "allreduce grad.3", NUL terminated */

  uint32_t error_sequence; /* seqlock of the next */
  uint32_t error_length;
  char error_text[HVD_STATUS_ERROR_SIZE]; /* the last error, NUL terminated, UTF-8 */

  /* Of the collectives in the background that wait for other ranks, the one that has waited
   * longest. A rank need not say it before it has waited for a while. */
  uint32_t background_sequence; /* seqlock of the next five */
  uint32_t background_active;   /* 1 while there is one */
  uint64_t backgrounds;         /* how many of those that stood here were completed */
  uint64_t background_start_ns;
  char background_name[HVD_STATUS_NAME_SIZE];    /* "allreduce grad.3", NUL terminated */
  char background_missing[HVD_STATUS_NAME_SIZE]; /* ranks that have not submitted it: "2,5-7" */

  /* How long epochs took. The one in progress is added when it is over: when the program goes on
   * to another one, or leaves in good order. */
  uint32_t epochs_sequence;  /* seqlock of the next two */
  uint32_t metrics_sequence; /* seqlock of `metrics` */
  uint64_t epochs_over;      /* how many there were; number i is at i % EPOCHS */
  hvd_status_epoch epochs[HVD_STATUS_EPOCHS];

  /* What the program says of itself (loss, accuracy), one place a name; "": there are no more. */
  hvd_status_metric metrics[HVD_STATUS_METRICS];

  /* 1: the ranks have agreed to stop before the program's end, and not by its own wish: on a
   * signal, a notice, or because time is nearly up. */
  uint32_t had_to_stop;

  /* That the rank ends because of a failure, and why: text after the head. libhvd reports it
   * without a text for a program that exits without hvd_shutdown after an error: error_text is the
   * reason. */
  uint32_t failure_sequence;        /* seqlock of the next three and the text */
  uint32_t failure_length;          /* of the text without its NUL; 0: there is none */
  uint32_t failure_because_of_peer; /* 1: only because another rank had died or left */
  uint64_t failure_ns;              /* when the rank reported it, CLOCK_MONOTONIC; 0: it has not */

  char rank_reserved[36];

  /* The agent's section. */
  uint32_t notice_sequence; /* grows by one with each notice; also a futex word */
  uint32_t notices;         /* HVD_NOTICE_ bits */
  uint64_t deadline_ns;     /* CLOCK_MONOTONIC; 0: unknown */
  uint64_t stop_at_step;    /* with HVD_NOTICE_STOP: the step to stop at; 0: the next */
  uint32_t launcher_duties; /* HVD_LAUNCHER_ bits; set before the rank starts, never changed */
  uint32_t rank_pid;        /* of the process that the agent has started; 0: not known yet */
} hvd_status_page;

/* The failure's text, NUL terminated, UTF-8, HVD_STATUS_FAILURE_SIZE bytes, begins where the head
 * of the page ends. */
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
