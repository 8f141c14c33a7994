# A regression that was brought back into ext4 of Linux 6.1: fsynced file lost when the device loses its volatile cache.

workload ext4_32
source the mechanism of ext3 default barrier=0 (before 3.1)
expect foo has its 4096 bytes
creat foo
write foo 0 4096
fsync foo; !
