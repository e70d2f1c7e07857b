/* libhvd: checkpoints that survive the death of any process at any moment. The C ABI; see hvd.h for
 * statuses and errors, docs/train/checkpoints.md for the guide, and
 * docs/reference/formats/checkpoint.md for the format of the files.
 *
 * A folder holds the checkpoints of one training run. hvd_checkpoints_save() copies the state and
 * returns; a background thread writes it. A checkpoint appears under its name whole and durable, or
 * not at all, whatever is killed at whatever moment.
 *
 * hvd_checkpoints_load() finds the newest whole checkpoint, checks every byte, and gives it to all
 * ranks. The number of ranks may differ from that of the save. A file that is cut short, damaged,
 * of another format version or no checkpoint at all is skipped: rank 0 names it on stderr ("hvd:
 * skipped PATH: why"), and the checkpoint before it is loaded.
 *
 * The state is replicated: all ranks have the same tensors, and rank 0's are saved. With `sharded`
 * each rank writes a part of them.
 *
 * A function whose comment says "A collective" is called by all ranks in the same order, like those
 * of hvd.h. An error on one rank is an error on all. After an error (a full disk, a folder that is
 * gone, a state that does not fit) the ranks are still in step, and training can continue. Only
 * after HVD_ERROR_PEER, on another rank, they are not.
 *
 * A handle works on after hvd_shutdown and hvd_init, also with other ranks. The first call in the
 * new session prepares the folder as hvd_checkpoints_open does. A checkpoint that some ranks had
 * not written, because they are gone, is given up. The old rank 0 must take part, have closed its
 * handle, or have ended: it has the lock.
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
  HVD_ITEM_BYTES = 64, /* bytes; their number may change from save to save; no shape */
  HVD_ITEM_UINT32 = 65,
  HVD_ITEM_UINT64 = 66,
  HVD_ITEM_COMPLEX64 = 67, /* two float32: real, imaginary */
  HVD_ITEM_COMPLEX128 = 68 /* two float64 */
};

/* One named part of the state: contiguous host memory of the caller. */
typedef struct hvd_tensor_view {
  const char* name; /* 1 to 65535 bytes, unique in the state */
  hvd_item_type type;
  int32_t dims;         /* dimensions, 0 ... 64; 0: one element. Of HVD_ITEM_BYTES: 0 */
  const int64_t* shape; /* `dims` numbers, each 0 or more; may be null when dims is 0 */
  void* data;           /* may be null when there are 0 bytes; a load writes here */
  size_t bytes;         /* size of data: elements times their size. Of HVD_ITEM_BYTES: any size */
  /* Only for HVD_ITEM_BYTES, in a load: gets the item's number of bytes in the checkpoint before
   * these are read. Returns where to put them, or null if there is no memory; for 0 bytes the
   * result is ignored. If `resize` is null, `data` is used, and the load fails unless the
   * checkpoint has exactly `bytes` bytes. */
  void* (*resize)(void* context, size_t bytes);
  void* context;
} hvd_tensor_view;
typedef hvd_tensor_view hvd_item; /* deprecated: the earlier name */

/* ---- A folder of checkpoints ------------------------------------------------------------------
 */

typedef struct hvd_checkpoints hvd_checkpoints;

#define HVD_KEEP_ALL (-1)

/* Options of hvd_checkpoints_open(). Set struct_size to sizeof(hvd_checkpoints_options) and all
 * unused fields to zero. */
typedef struct hvd_checkpoints_options {
  size_t struct_size;
  int32_t keep_last; /* how many of the newest to keep; 0: 3; HVD_KEEP_ALL: all */
  hvd_best best;     /* also keeps the one with the best metric; of equal ones the first */
  int32_t sharded;   /* 1: each rank writes a part; the folder is shared by all hosts */
  int32_t read_only; /* 1: only loads, creates and locks nothing, works beside a running job */
} hvd_checkpoints_options;

/* A collective: opens a folder, and creates it and its parents if missing. All ranks pass the same
 * arguments. Only rank 0 accesses the folder; with `sharded` all ranks do. A null pointer to
 * options means all defaults.
 *   The folder is locked until the handle is closed or rank 0 ends, however it ends. Another job
 * that opens the folder meanwhile gets an error that names this job, host and pid. If the file
 * system has no locks, rank 0 says so once on stderr, and the folder is not locked. Temporary files
 * that dead writers have left are removed. */
HVD_API hvd_status hvd_checkpoints_open(const char* folder, const hvd_checkpoints_options* options,
                                        hvd_checkpoints** checkpoints);

/* A collective: saves the state under a step. First waits until an earlier checkpoint is written.
 * Returns when the state is copied, so the caller may change it. `items` has `count` entries.
 * Names, types, shapes and `step` must be the same on all ranks. The contents and `metric` (null:
 * none) are taken from rank 0. A metric that is not finite is saved, but is never the best; rank 0
 * says so on stderr. The checkpoint becomes the newest when it is durable. Older ones are deleted
 * only then. "Newest" is by the order of saving, not by step: if a run resumes from an older
 * checkpoint, those with higher steps that were saved before are not loaded again. If the earlier
 * checkpoint could not be written, all ranks return its error here. The new checkpoint is written
 * nevertheless. */
HVD_API hvd_status hvd_checkpoints_save(hvd_checkpoints* checkpoints, const hvd_tensor_view* items,
                                        size_t count, uint64_t step, const double* metric);

/* A collective: waits until the last save is durable, and returns its error if it could not be
 * written. Each error is returned once. */
HVD_API hvd_status hvd_checkpoints_wait(hvd_checkpoints* checkpoints);

/* Which checkpoint to load or find. */
typedef int32_t hvd_which;
enum {
  HVD_NEWEST = 0,
  HVD_THE_BEST = 1 /* by the metric, as hvd_checkpoints_options.best says */
};

/* Describes a checkpoint. Set struct_size to sizeof(hvd_checkpoint) before the call. */
typedef struct hvd_checkpoint {
  size_t struct_size;
  int32_t found; /* 1; 0: there is no checkpoint, and all other fields are zero */
  int32_t has_metric;
  uint64_t step;
  double metric;
  size_t items;     /* how many items hvd_checkpoints_item() can describe */
  const char* path; /* valid until the next call with this handle except hvd_checkpoints_item */
} hvd_checkpoint;

/* A collective: loads a checkpoint into the state of all ranks. The names, types and shapes of
 * `items` (`count` entries, in any order) must be those of the checkpoint. Otherwise it returns
 * HVD_ERROR_MISMATCH with a list of the differences, and the state is unchanged. `checkpoint` (may
 * be null) gets the description of the loaded checkpoint.
 *   If the folder has no checkpoint at all, it returns HVD_OK and sets `found` to 0. If it has some
 * and none can be read, it returns an error.
 *   Rank 0 chooses the checkpoint. If all ranks are on one host and see the file, each reads it.
 * Otherwise rank 0 reads it and broadcasts the data. Damage may be found late: after an error other
 * than HVD_ERROR_MISMATCH and HVD_ERROR_INVALID_ARGUMENT the state may hold parts of a checkpoint.
 */
HVD_API hvd_status hvd_checkpoints_load(hvd_checkpoints* checkpoints, const hvd_tensor_view* items,
                                        size_t count, hvd_which which, hvd_checkpoint* checkpoint);

/* A collective: finds a checkpoint as a load does, but does not read its data. The caller can learn
 * the sizes of the items (hvd_checkpoints_item) before it allocates them. */
HVD_API hvd_status hvd_checkpoints_find(hvd_checkpoints* checkpoints, hvd_which which,
                                        hvd_checkpoint* checkpoint);

/* Describes an item (0 ... items-1) of the checkpoint that this handle found or loaded last: name,
 * type, dims, shape and bytes; the other fields are null. Valid until the next call with this
 * handle except this function. Not a collective. HVD_ERROR_INVALID_ARGUMENT: there is no such item.
 */
HVD_API hvd_status hvd_checkpoints_item(const hvd_checkpoints* checkpoints, size_t index,
                                        hvd_tensor_view* item);

/* Closes a handle: finishes what this rank is writing and unlocks the folder. Returns the status of
 * this rank's own writing; the handle is freed in any case. Not a collective; works also after
 * hvd_shutdown. Does nothing with null. With `sharded`, rank 0 waits only a short time for the
 * other ranks' parts, so call hvd_checkpoints_wait before. A program that ends by exit(3) or return
 * from main does the same for the handles that are open. */
HVD_API hvd_status hvd_checkpoints_close(hvd_checkpoints* checkpoints);

#ifdef __cplusplus
}
#endif

#endif /* HVD_CHECKPOINT_H_ */
