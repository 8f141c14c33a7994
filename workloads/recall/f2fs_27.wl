# A regression that was brought back into f2fs of Linux 6.1: recovered size too large.

workload f2fs_27
source the mechanism of new_9
expect size 16384
setup
creat foo
write foo 0 16384
fsync foo
syncfs
run
falloc foo zero_range|keep_size 16384 4096
fsync foo; !
