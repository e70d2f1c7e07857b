/* libhvd: training data. Decides which rank gets which samples (hvd_shard), reads samples in the
 * background (hvd_source, hvd_reader), and writes record files (hvd_record_writer). The C ABI; see
 * hvd.h for statuses and errors. docs/train/data.md is the guide; docs/reference/formats/shuffle.md
 * specifies order and random numbers to the bit.
 *
 * No function here is a collective: no rank waits for another. Each rank computes its part from the
 * same numbers, so options and files must be the same on all ranks. The functions work without
 * hvd_init, unless the options leave rank and size to the job.
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

/* What to do if the samples cannot be divided evenly among the ranks. */
typedef int32_t hvd_remainder;
enum {
  /* Every sample appears exactly once in an epoch. The last batch may be smaller. One rank's part
   * of a batch may be smaller by one sample than another's, or empty. */
  HVD_REMAINDER_UNEVEN = 0,
  /* The first samples of an epoch are repeated at its end until all ranks have the same number, as
   * torch's DistributedSampler does. */
  HVD_REMAINDER_PAD = 1,
  /* The last samples of an epoch, fewer than there are ranks, are left out so that all ranks have
   * the same number, as torch's DistributedSampler does with drop_last=True. */
  HVD_REMAINDER_DROP = 2
};

/* Options of hvd_shard_create(). Set struct_size to sizeof(hvd_shard_options) and all unused fields
 * to zero. */
typedef struct hvd_shard_options {
  size_t struct_size;
  int64_t samples; /* in the data set, 0 ... 2^62; with 0 an epoch has no steps */
  int64_t batch;   /* samples of all ranks together in a step, 1 or more; with pad and drop a
                      multiple of the size. May be more than `samples`. */
  int64_t epoch;   /* 0 or more; each epoch has an order of its own */
  uint64_t seed;   /* of the shuffle */
  int32_t shuffle; /* 0: the order of the data set; otherwise shuffled */
  hvd_remainder remainder;
  int32_t rank; /* 0 ... size-1 */
  int32_t size; /* number of ranks; 0: those of this job, and `rank` is ignored. After hvd_reform,
                   or hvd_shutdown and hvd_init, these are the new ones */
} hvd_shard_options;

/* One rank's samples in one epoch. All samples are shuffled first (Fisher and Yates with
 * Philox4x32-10), batches are cut from this one order, and each batch is divided among the ranks.
 * So the batch of a step is the same set of samples at every number of ranks, and all ranks make
 * the same number of steps. */
typedef struct hvd_shard hvd_shard;

/* Makes the shard of an epoch. Free it with hvd_shard_free. HVD_ERROR_INVALID_ARGUMENT: an option
 * is not valid; the text names it. HVD_ERROR_NOT_INITIALIZED: size is 0, and this is before
 * hvd_init or after hvd_shutdown. HVD_ERROR_SYSTEM: the order does not fit into memory. A shuffled
 * order needs 4 bytes for each sample up to 2^32 samples, otherwise 8. */
HVD_API hvd_status hvd_shard_create(const hvd_shard_options* options, hvd_shard** shard);

/* Sets *steps to the number of steps, the same on all ranks. */
HVD_API hvd_status hvd_shard_steps(const hvd_shard* shard, int64_t* steps);

/* Returns this rank's samples of a step (0 ... steps-1) in *indices and *count. Indices are
 * 0 ... samples-1. They belong to the shard and are valid until the next call on it. *indices is
 * null if *count is 0. HVD_ERROR_INVALID_ARGUMENT: there is no such step. */
HVD_API hvd_status hvd_shard_step(hvd_shard* shard, int64_t step, const int64_t** indices,
                                  size_t* count);

/* Sets *samples to the samples of all ranks together in a step. Divide a sum of gradients over all
 * ranks by this number. HVD_ERROR_INVALID_ARGUMENT: there is no such step. */
HVD_API hvd_status hvd_shard_batch_size(const hvd_shard* shard, int64_t step, int64_t* samples);

/* Frees a shard. Does nothing with null. */
HVD_API void hvd_shard_free(hvd_shard* shard);

/* ---- Sources ------------------------------------------------------------------------------ */

/* Samples on a disk, numbered from 0. A sample is some bytes, with or without a label. Opening a
 * source finds and checks its files; readers read them later. Any number of readers and threads may
 * use an open source at the same time. */
typedef struct hvd_source hvd_source;

/* Opens a folder with one sub-folder for each class, the layout of torchvision's ImageFolder. A
 * sample is a file's bytes. Its label is the index of its class among the names of the sub-folders,
 * sorted as bytes. A class has the files at any depth of its sub-folder, in the order of their
 * folders and then of their names. Only regular files are used, also through links.
 *   `extensions`: the files to use, ".jpg,.png", in upper or lower case; null: those of ImageFolder
 * (.jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp); "": all files.
 *   Errors: there is no such folder; it has no sub-folder; a class has no file. */
HVD_API hvd_status hvd_source_open_folder(const char* path, const char* extensions,
                                          hvd_source** source);

/* Opens a file of records as TensorFlow writes them (TFRecord, not compressed). Opening reads and
 * checks the lengths of all records; a record's data is checked when it is read. Errors: the file
 * cannot be read; a length is damaged or does not fit into the file. */
HVD_API hvd_status hvd_source_open_tfrecord(const char* path, hvd_source** source);

/* Opens a file of records of `record_bytes` bytes each, after a header of `header_bytes` bytes that
 * is skipped: CIFAR's binary files are (3073, 0), MNIST's images (784, 16). Errors: the file cannot
 * be read; it ends within a record. */
HVD_API hvd_status hvd_source_open_fixed(const char* path, size_t record_bytes, size_t header_bytes,
                                         hvd_source** source);

/* Sets *samples to the number of samples. */
HVD_API hvd_status hvd_source_samples(const hvd_source* source, int64_t* samples);

/* Sets *classes to the number of classes of a folder; 0 for records. */
HVD_API hvd_status hvd_source_classes(const hvd_source* source, int64_t* classes);

/* Sets *name to the name of a class (0 ... classes-1). The text belongs to the source.
 * HVD_ERROR_INVALID_ARGUMENT: there is no such class. */
HVD_API hvd_status hvd_source_class_name(const hvd_source* source, int64_t label,
                                         const char** name);

/* Computes a checksum of the names, classes and number of the samples, but not of their bytes. It
 * is the same on ranks that see the same files. */
HVD_API hvd_status hvd_source_fingerprint(const hvd_source* source, uint32_t* fingerprint);

/* Frees a source; readers may still be using it. Does nothing with null. */
HVD_API void hvd_source_free(hvd_source* source);

/* ---- The reader --------------------------------------------------------------------------- */

/* A sample as it was read. All of it belongs to the reader and is valid until the callback returns.
 */
typedef struct hvd_sample {
  int64_t index;    /* in the source */
  int64_t label;    /* -1: the source has no labels */
  const void* data; /* may be null when `bytes` is 0 */
  size_t bytes;
  const char* name; /* the file, or "FILE record N": for messages */
} hvd_sample;

/* The result of a callback for one sample. At first it has 0 bytes and the sample's label. Valid
 * until the callback returns. */
typedef struct hvd_output hvd_output;

/* Makes the output `bytes` long and returns its address, for the callback to fill. Bytes that were
 * there before stay; the rest is undefined. Returns null if there is no memory. A batch holds its
 * samples one after the other without gaps, so only the samples before determine the alignment. */
HVD_API void* hvd_output_resize(hvd_output* output, size_t bytes);

HVD_API void hvd_output_set_label(hvd_output* output, int64_t label);

/* Sets the message of the error that the callback then returns. */
HVD_API void hvd_output_fail(hvd_output* output, const char* message);

/* A callback that turns a sample's bytes into what the training needs. Runs on the reader's
 * threads, for several samples at the same time; signals are blocked there. Must not throw, and
 * must not call the reader. Returns HVD_OK, or any other value to make this sample an error. */
typedef hvd_status (*hvd_decode)(void* context, const hvd_sample* sample, hvd_output* output);

/* Options of hvd_reader_open(). Set struct_size to sizeof(hvd_reader_options) and all unused fields
 * to zero. A null pointer means all defaults. */
typedef struct hvd_reader_options {
  size_t struct_size;
  int32_t threads;   /* that read and decode, 1 ... 1024; at most `prefetch` are started; 0: 2 */
  int32_t prefetch;  /* batches to keep ready besides the one in use, 1 ... 65536; 0: 4 */
  int32_t cache;     /* not 0: keep every sample's bytes, as read, for later epochs */
  hvd_decode decode; /* null: samples are delivered as they were read */
  void* context;     /* for decode */
} hvd_reader_options;

/* This rank's part of the batch of a step. Belongs to the reader. */
typedef struct hvd_batch {
  int64_t epoch;
  int64_t step;
  int64_t batch_size;        /* samples of all ranks together */
  size_t count;              /* samples of this rank, may be 0 */
  const int64_t* indices;    /* `count` numbers: the samples' places in the source */
  const int64_t* labels;     /* `count` numbers; -1: no label */
  const unsigned char* data; /* the samples' bytes, one sample after the other */
  const size_t* offsets;     /* `count` + 1 numbers, in bytes: sample i begins at data[offsets[i]]
                                and ends before data[offsets[i + 1]] */
} hvd_batch;

/* Reads a source in the order of a shard, epoch after epoch, on background threads. The batches do
 * not depend on the number of threads. A reader holds at most prefetch + 1 batches and the order of
 * one epoch, or briefly of two when the next epoch begins. With `cache` it also holds the bytes of
 * every sample that it has read.
 *   Fork: a child that is forked later does not have the reader's threads. In the child
 * hvd_reader_next and hvd_reader_seek return HVD_ERROR_FORKED, and hvd_reader_close does nothing.
 * The child may open a reader of its own. */
typedef struct hvd_reader hvd_reader;

/* Starts to read at once, from the beginning of shard->epoch. shard->samples must be 0 or the
 * source's number of samples. The source may be freed afterwards. Errors: those of
 * hvd_shard_create; an option of the reader is not valid. */
HVD_API hvd_status hvd_reader_open(const hvd_source* source, const hvd_shard_options* shard,
                                   const hvd_reader_options* options, hvd_reader** reader);

/* Sets *steps to the number of steps of an epoch, which is the same for all epochs. */
HVD_API hvd_status hvd_reader_steps(const hvd_reader* reader, int64_t* steps);

/* Waits for the batch of the next step. The batch is valid until the next call on the reader. After
 * the last step of an epoch *batch is null once; the call after that begins the next epoch.
 *   If a file cannot be read, is damaged or `decode` fails, its step returns an error that names
 * the file. The call after that returns the next step. */
HVD_API hvd_status hvd_reader_next(hvd_reader* reader, const hvd_batch** batch);

/* Continues at a step (0 ... steps) of an epoch, for a training that resumes.
 * HVD_ERROR_INVALID_ARGUMENT: there is no such step or epoch. */
HVD_API hvd_status hvd_reader_seek(hvd_reader* reader, int64_t epoch, int64_t step);

/* Ends the reader and its threads. Waits until each thread is done with its current sample, or with
 * the order of the next epoch. Does nothing with null. */
HVD_API void hvd_reader_close(hvd_reader* reader);

/* ---- Writing records ---------------------------------------------------------------------- */

/* Writes a TFRecord file, which appears under its name, whole, when the writer is closed. */
typedef struct hvd_record_writer hvd_record_writer;

/* Begins a file under a temporary name in the same folder. Error: the file cannot be created. */
HVD_API hvd_status hvd_record_writer_open(const char* path, hvd_record_writer** writer);

/* Appends a record of `bytes` bytes. Error: the file cannot be written. */
HVD_API hvd_status hvd_record_writer_write(hvd_record_writer* writer, const void* data,
                                           size_t bytes);

/* Writes the file to the disk and makes it visible under its name. Frees the writer, even if that
 * fails. */
HVD_API hvd_status hvd_record_writer_close(hvd_record_writer* writer);

/* Removes what was written and frees the writer. Does nothing with null. */
HVD_API void hvd_record_writer_discard(hvd_record_writer* writer);

#ifdef __cplusplus
}
#endif

#endif /* HVD_DATA_H_ */
