/* libhvd: training data: which rank takes which samples (hvd_shard), and reading them in the
 * background (hvd_source, hvd_reader). The C ABI; see hvd.h for statuses and errors. docs/data.md
 * is the guide and specifies order and random numbers to the bit.
 *
 * Nothing here is a collective: no rank waits for another. Each rank works out its part from the
 * same numbers, so options and files must be the same on all ranks. Nothing needs hvd_init unless
 * the options leave rank and size to the job.
 *
 * Threads. Different objects may be used at the same time; one object by one thread at a time.
 */
#ifndef HVD_DATA_H_
#define HVD_DATA_H_

#include "hvd/hvd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Shards ------------------------------------------------------------------------------- */

/* What happens when the samples cannot be dealt evenly. */
typedef int32_t hvd_remainder;
enum {
  /* Every sample exactly once an epoch. The last batch may be smaller, and a rank's part of a batch
   * smaller by one than another's, or empty. */
  HVD_REMAINDER_UNEVEN = 0,
  /* Samples of the epoch's beginning are repeated at its end until all ranks have the same number:
   * torch's DistributedSampler. */
  HVD_REMAINDER_PAD = 1,
  /* The epoch's last samples, fewer than there are ranks, are left out until all ranks have the
   * same number: torch's DistributedSampler with drop_last=True. */
  HVD_REMAINDER_DROP = 2
};

/* Set struct_size to sizeof(hvd_shard_options) and everything unused to zero. */
typedef struct hvd_shard_options {
  size_t struct_size;
  int64_t samples; /* in the data set: 0 ... 2^62; 0 gives an epoch without steps */
  int64_t batch;   /* samples in a step of all ranks together, at least 1; with pad and drop a
                      multiple   of the size. May be more than `samples`. */
  int64_t epoch;   /* at least 0; another epoch is another order */
  uint64_t seed;
  int32_t shuffle; /* 0: in the order of the data set, else shuffled */
  hvd_remainder remainder;
  int32_t rank;
  int32_t size; /* of how many ranks; 0: this job's, and `rank` is not looked at */
} hvd_shard_options;

/* One rank's samples in one epoch. All samples are shuffled first (Fisher and Yates with
 * Philox4x32-10), batches are cut from that one order, and each batch is divided among the ranks.
 * So a step's batch is the same set of samples at every number of ranks, and all ranks make the
 * same number of steps. */
typedef struct hvd_shard hvd_shard;

/* Errors: HVD_ERROR_INVALID_ARGUMENT, with the option in the text; HVD_ERROR_NOT_INITIALIZED when
 * the size is left to the job; HVD_ERROR_SYSTEM when the order does not fit into memory (4 bytes a
 * sample up to 2^32 samples, else 8; nothing without shuffling). */
HVD_API hvd_status hvd_shard_create(const hvd_shard_options* options, hvd_shard** shard);

/* The same on all ranks. */
HVD_API hvd_status hvd_shard_steps(const hvd_shard* shard, int64_t* steps);

/* This rank's samples of a step (0 ... steps-1): indices 0 ... samples-1. They belong to the shard
 * and are valid until the next call on it; null when `count` is 0. */
HVD_API hvd_status hvd_shard_step(hvd_shard* shard, int64_t step, const int64_t** indices,
                                  size_t* count);

/* Samples of all ranks together in a step: what a sum of gradients over them is divided by. */
HVD_API hvd_status hvd_shard_batch_size(const hvd_shard* shard, int64_t step, int64_t* samples);

/* A null shard is fine. */
HVD_API void hvd_shard_free(hvd_shard* shard);

/* ---- Sources ------------------------------------------------------------------------------ */

/* Samples on a disk: they are numbered from 0 and each is some bytes, with a label or without.
 * Files are found and checked when the source is opened, and read later. Once open, a source may be
 * used by any number of readers and threads. */
typedef struct hvd_source hvd_source;

/* A folder with one sub-folder a class, as torchvision's ImageFolder wants it. The label is the
 * index of the class among the sub-folders' names, sorted as bytes; files count at any depth below,
 * in the order of their folders and then of their names. A sample is a file's bytes. `extensions`:
 * which files count, ".jpg,.png", whatever their case; null: ImageFolder's (.jpg .jpeg .png .ppm
 * .bmp .pgm .tif .tiff .webp); "": all. Only regular files, also through links. Errors: no folder;
 * no sub-folder; a class without a file. */
HVD_API hvd_status hvd_source_open_folder(const char* path, const char* extensions,
                                          hvd_source** source);

/* One file of records as TensorFlow writes them (TFRecord, not compressed). Opening reads through
 * the lengths of all records and checks them; a record's data is checked when it is read. Errors: a
 * length that is damaged or does not fit into the file. */
HVD_API hvd_status hvd_source_open_tfrecord(const char* path, hvd_source** source);

/* One file of records of the same length, after a header that is skipped: CIFAR's binary files
 * (3073, 0), MNIST's images (784, 16). Error: a rest that is not a whole record. */
HVD_API hvd_status hvd_source_open_fixed(const char* path, size_t record_bytes, size_t header_bytes,
                                         hvd_source** source);

HVD_API hvd_status hvd_source_samples(const hvd_source* source, int64_t* samples);

/* Classes of a folder; 0 for records. */
HVD_API hvd_status hvd_source_classes(const hvd_source* source, int64_t* classes);

/* A class's name; belongs to the source. */
HVD_API hvd_status hvd_source_class_name(const hvd_source* source, int64_t label,
                                         const char** name);

/* A checksum of what the source has: the names, classes and number of its samples (not their
 * bytes). Ranks that see the same files get the same. */
HVD_API hvd_status hvd_source_fingerprint(const hvd_source* source, uint32_t* fingerprint);

/* A null source is fine, also while readers still use it. */
HVD_API void hvd_source_free(hvd_source* source);

/* ---- The reader --------------------------------------------------------------------------- */

/* A sample as it was read. Everything belongs to the reader and is gone when the callback returns.
 */
typedef struct hvd_sample {
  int64_t index;    /* in the source */
  int64_t label;    /* -1: the source has none */
  const void* data; /* may be null when `bytes` is 0 */
  size_t bytes;
  const char* name; /* the file, or "FILE record N": for messages */
} hvd_sample;

/* Where a callback puts what it made of a sample; at first 0 bytes and the sample's label. */
typedef struct hvd_output hvd_output;

/* Makes it `bytes` long and returns where they are, to be filled; what was there before stays, the
 * rest is undefined. Null when there is no memory. In a batch the samples stand one after the other
 * without gaps, so the address is aligned only as far as the samples before allow. */
HVD_API void* hvd_output_resize(hvd_output* output, size_t bytes);

HVD_API void hvd_output_set_label(hvd_output* output, int64_t label);

/* Says why it did not work, for a callback that then returns a failure. */
HVD_API void hvd_output_fail(hvd_output* output, const char* message);

/* Turns a sample's bytes into what the training wants. Runs in the reader's threads, for several
 * samples at the same time; signals are blocked there. Must not throw and not call the reader.
 * Returns HVD_OK, or anything else to make this sample an error. */
typedef hvd_status (*hvd_decode)(void* context, const hvd_sample* sample, hvd_output* output);

/* Set struct_size to sizeof(hvd_reader_options) and everything unused to zero; a null pointer
 * stands for all defaults. */
typedef struct hvd_reader_options {
  size_t struct_size;
  int32_t
      threads; /* that read and decode, 1 ... 1024; 0: 2. No more than `prefetch` are started. */
  int32_t prefetch;  /* batches that are kept ready beside the one in use, 1 ... 65536; 0: 4 */
  int32_t cache;     /* not 0: keep every sample's bytes, as read, for the next epochs */
  hvd_decode decode; /* null: samples are delivered as they were read */
  void* context;     /* for decode */
} hvd_reader_options;

/* This rank's part of a step's batch. Belongs to the reader. */
typedef struct hvd_batch {
  int64_t epoch;
  int64_t step;
  int64_t batch_size;        /* samples of all ranks together */
  size_t count;              /* samples of this rank, may be 0 */
  const int64_t* indices;    /* count */
  const int64_t* labels;     /* count; -1 for none */
  const unsigned char* data; /* the samples' bytes one after the other */
  const size_t* offsets;     /* count + 1: sample i is data[offsets[i]] to data[offsets[i + 1]] */
} hvd_batch;

/* Reads a source in the order of a shard, epoch after epoch, in background threads. What it
 * delivers does not depend on how many there are. It holds at most prefetch + 1 batches, with
 * `cache` also the bytes of every sample it has read, and the order of one epoch, of two for a
 * moment when the next begins. Fork: in a child forked later, the reader's threads are not there:
 * hvd_reader_next is HVD_ERROR_FORKED and hvd_reader_close does nothing; open a reader of its own
 * there. */
typedef struct hvd_reader hvd_reader;

/* Starts to read at once, from the beginning of shard->epoch. shard->samples must be 0 or the
 * source's number. The source may be freed afterwards. */
HVD_API hvd_status hvd_reader_open(const hvd_source* source, const hvd_shard_options* shard,
                                   const hvd_reader_options* options, hvd_reader** reader);

/* Steps of an epoch, the same in all. */
HVD_API hvd_status hvd_reader_steps(const hvd_reader* reader, int64_t* steps);

/* The next step's batch; valid until the next call on the reader. After the last step of an epoch:
 * null, once, and the next call begins the next epoch.
 *   A file that cannot be read, is damaged or was refused by `decode` is an error at its step, with
 * the file's name; the call after that gives the next step. */
HVD_API hvd_status hvd_reader_next(hvd_reader* reader, const hvd_batch** batch);

/* Goes on at a step (0 ... steps) of an epoch, for training that resumes. */
HVD_API hvd_status hvd_reader_seek(hvd_reader* reader, int64_t epoch, int64_t step);

/* Ends the threads: waits until each is done with the sample it is at, or one with the order of the
 * next epoch. A null reader is fine. */
HVD_API void hvd_reader_close(hvd_reader* reader);

/* ---- Writing records ---------------------------------------------------------------------- */

/* Writes a TFRecord file. It appears under its name, whole, when it is closed. */
typedef struct hvd_record_writer hvd_record_writer;

HVD_API hvd_status hvd_record_writer_open(const char* path, hvd_record_writer** writer);
HVD_API hvd_status hvd_record_writer_write(hvd_record_writer* writer, const void* data,
                                           size_t bytes);

/* Brings the file to the disk and makes it visible; ends the writer also when that fails. */
HVD_API hvd_status hvd_record_writer_close(hvd_record_writer* writer);

/* Drops what was written. A null writer is fine. */
HVD_API void hvd_record_writer_discard(hvd_record_writer* writer);

#ifdef __cplusplus
}
#endif

#endif /* HVD_DATA_H_ */
