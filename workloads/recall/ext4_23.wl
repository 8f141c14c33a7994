# A regression that was brought back into ext4 of Linux 6.1: size 0 with allocated blocks: synced data lost.

workload ext4_23
source the mechanism of ext4_direct_write
expect size >= 4096 and foo[0,4096) as written
setup
creat foo
syncfs
run
write foo 16384 4096
dwrite foo 0 4096 sync; !
