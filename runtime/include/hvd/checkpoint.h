/* libhvd: checkpoints that survive anything. The C ABI; see hvd.h for statuses and errors, and
 * docs/checkpoints.md for the guide and the format of the files.
 *
 * A folder holds the checkpoints of one training run. hvd_checkpoints_save() copies the state and
 * returns; a background thread writes it. A checkpoint appears under its name whole and durable, or
 * not at all, whatever is killed at whatever moment. hvd_checkpoints_load() finds the newest one
 * that is whole, checks every byte, and hands it to all ranks, at any number of ranks. What is cut
 * short, damaged, of another format version or no checkpoint at all is skipped: rank 0 names it on
 * stderr ("hvd: skipped PATH: why"), and the one before is taken.
 *
 * The state is replicated: all ranks have the same tensors, and what is saved is rank 0's (sharded:
 * each rank writes a part of it).
 *
 * Collectives are marked so: all ranks call them in the same order, as those of hvd.h, and an error
 * on one rank is an error on all. None of them throws the job out of step: after an error (a full
 * disk, a folder that is gone, a state that does not fit) training can go on.
 */
#ifndef HVD_CHECKPOINT_H_
#define HVD_CHECKPOINT_H_

#include "hvd/hvd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Items ------------------------------------------------------------------------------------
 */

/* The type of an item: a hvd_type, or one of these. */
typedef int32_t hvd_item_type;
enum {
  HVD_ITEM_BYTES = 64, /* bytes of any number, which may change from save to save; no shape */
  HVD_ITEM_UINT32 = 65,
  HVD_ITEM_UINT64 = 66,
  HVD_ITEM_COMPLEX64 = 67, /* two float32: real, imaginary */
  HVD_ITEM_COMPLEX128 = 68 /* two float64 */
};

/* One named part of the state. The caller's memory, host memory, contiguous. */
typedef struct hvd_item {
  const char* name; /* 1 to 65535 bytes, unique in the state */
  hvd_item_type type;
  int32_t dims;         /* 0 ... 64; 0: one element. HVD_ITEM_BYTES: 0 */
  const int64_t* shape; /* `dims` numbers, each 0 or more; may be null when dims is 0 */
  void* data;           /* may be null when there are 0 bytes; a load writes here */
  size_t bytes;         /* of data: elements times their size. HVD_ITEM_BYTES: how many there are */
  /* HVD_ITEM_BYTES, loading only: called with the number of bytes in the checkpoint before they
   * come; returns where to put them (not looked at for 0 bytes), or null when there is no memory.
   * Null: `data` is used, and it is an error when the checkpoint has not exactly `bytes`. */
  void* (*resize)(void* context, size_t bytes);
  void* context;
} hvd_item;

/* ---- A folder of checkpoints ------------------------------------------------------------------
 */

typedef struct hvd_checkpoints hvd_checkpoints;

#define HVD_KEEP_ALL (-1)

/* Set struct_size to sizeof(hvd_checkpoints_options) and everything unused to zero. */
typedef struct hvd_checkpoints_options {
  size_t struct_size;
  int32_t keep_last; /* how many to keep; 0: 3; HVD_KEEP_ALL: all */
  hvd_best best;   /* keep also the one with the smallest or largest metric; of equals the first */
  int32_t sharded; /* 1: each rank writes a part; the folder is shared by all hosts */
  int32_t read_only; /* 1: only to load: creates and locks nothing, works beside a running job */
} hvd_checkpoints_options;

/* A collective: opens a folder, and creates it (with those above it) where it is not there. All
 * ranks give the same arguments; only rank 0 looks at the folder, with `sharded` all do.
 *   The folder is locked until the handle is closed or rank 0 ends, however it ends: another job
 * that opens it meanwhile gets an error that names this job, host and pid. Where the file system
 * has no locks, rank 0 says so once on stderr and goes on. Left-over temporary files of dead
 * writers are removed.
 *   A null pointer to options stands for all defaults. */
HVD_API hvd_status hvd_checkpoints_open(const char* folder, const hvd_checkpoints_options* options,
                                        hvd_checkpoints** checkpoints);

/* A collective: saves the state under a step. Returns when the state has been copied; it may be
 * changed then. Waits first for an earlier checkpoint that is still being written. `metric` (null:
 * none) and the contents are rank 0's; names, types, shapes and step must be the same on all ranks.
 * A metric that is not finite is kept, but is never the best, and rank 0 says so.
 *   The checkpoint is the newest from the moment when it is durable; only then are older ones
 * deleted. "Newest" is by the order of saving, not by step: after loading an older one and going on
 * from there, what was saved before with higher steps does not come back.
 *   When the earlier checkpoint could not be written, its error is returned here, on all ranks,
 * while this one is being written nevertheless. */
HVD_API hvd_status hvd_checkpoints_save(hvd_checkpoints* checkpoints, const hvd_item* items,
                                        size_t count, uint64_t step, const double* metric);

/* A collective: waits until what was saved is durable; the error when it could not be written. An
 * error is told once. */
HVD_API hvd_status hvd_checkpoints_wait(hvd_checkpoints* checkpoints);

/* Which checkpoint to look for. */
typedef int32_t hvd_which;
enum {
  HVD_NEWEST = 0,
  HVD_THE_BEST = 1 /* by metric, as opened (HVD_BEST_MIN, HVD_BEST_MAX) */
};

/* A checkpoint. Set struct_size to sizeof(hvd_checkpoint) before the call. */
typedef struct hvd_checkpoint {
  size_t struct_size;
  int32_t found; /* 0: there is none, all else is zero then */
  int32_t has_metric;
  uint64_t step;
  double metric;
  size_t items;     /* how many hvd_checkpoints_item() can tell of */
  const char* path; /* valid until the next call with this handle, but hvd_checkpoints_item */
} hvd_checkpoint;

/* A collective: loads a checkpoint into the state of all ranks. The state's names, types and shapes
 * must be those of the checkpoint, in any order: HVD_ERROR_MISMATCH lists what differs, and nothing
 * was written. `checkpoint` (may be null) says which it was; `found` is 0, and HVD_OK the answer,
 * only for a folder without any checkpoint. When there are some and none can be read, it is an
 * error. Rank 0 looks for it; when all ranks are on one host and see the file each reads it for
 * itself, else rank 0 reads it and its data is broadcast. Damaged data may show late: after an
 * error that is not HVD_ERROR_MISMATCH or HVD_ERROR_INVALID_ARGUMENT the state may hold parts of a
 * checkpoint. */
HVD_API hvd_status hvd_checkpoints_load(hvd_checkpoints* checkpoints, const hvd_item* items,
                                        size_t count, hvd_which which, hvd_checkpoint* checkpoint);

/* A collective: the same without the data, to see what there is before making room for it. */
HVD_API hvd_status hvd_checkpoints_find(hvd_checkpoints* checkpoints, hvd_which which,
                                        hvd_checkpoint* checkpoint);

/* Describes an item of the checkpoint that this handle has last found or loaded: name, type, dims,
 * shape and bytes; the rest is null. Valid until the next call with this handle but this one. Not a
 * collective. */
HVD_API hvd_status hvd_checkpoints_item(const hvd_checkpoints* checkpoints, size_t index,
                                        hvd_item* item);

/* Ends a handle: finishes what this rank is writing, and unlocks the folder. Not a collective; also
 * after hvd_shutdown. The status is that of this rank's own writing; the handle is gone in any
 * case. (With `sharded`, rank 0 waits a short time only for the other ranks' parts: call
 * hvd_checkpoints_wait before.) A null handle is fine. A program that ends with exit(3) or by
 * returning from main without this finishes in the same way. */
HVD_API hvd_status hvd_checkpoints_close(hvd_checkpoints* checkpoints);

#ifdef __cplusplus
}
#endif

#endif /* HVD_CHECKPOINT_H_ */
