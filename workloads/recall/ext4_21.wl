# A regression that was brought back into ext4 of Linux 6.1: prealloc lost although fdatasynced.

workload ext4_21
source the mechanism of generic_468
expect st_blocks 32, size 16384
setup
creat foo
write foo 8192 8192
fsync foo
syncfs
run
falloc foo keep_size 4202496 8192
fdatasync foo; !
