# Case of CrashMonkey's other tests.
# Consequence: sync_file_range gives no metadata guarantee.
# sync_file_range promises nothing about metadata: that the data can be read is no promise.

workload lfs_srange
source sync_file_range_inconsistency.cpp
expect bytes 4096 to 8192 can be read
mkdir A
creat A/foo
falloc A/foo zero_range 0 8K
sync; !
write A/foo 4K 4K
sync_file_range A/foo 4K 4K; !
