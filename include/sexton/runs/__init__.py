"""One run of the pipeline: its input, its record and tables, its checkpoint, the engine that computes it.

source          the input of a run: segments or an archive
folder          the run folder: where its tables are, and the run record
engine          Spark, and what a job needs of it; processes: the same interface without Spark
fold_log        folds the log partitions of a source, from a checkpoint where one fits
checkpoint      folds that are kept for the next run
choose_profile  the release whose rules a log follows
judging         the verdicts of one log partition, read from the folder
"""
