"""One run of the pipeline: its input, its record and tables, its checkpoint, the engine that computes it.

source              the input of a run: segments or an archive
folder              the run folder: where its tables are, and the run record
spark_session       starts the Spark session of a job or command, and names it
engine              spreads work over Spark; processes: the same interface without Spark
fold_log            folds the log partitions of a source, from a checkpoint if possible
checkpoint          folds that are stored for the next run
checkpoint_verify   whether runs can start from the checkpoints of an archive
choose_profile      the release whose rules a log follows
endless_load        the batch at which the load of a log partition never ends
judging             the verdicts of one shard, read from the folder
"""
