# Known bug in f2fs, seen in Linux 4.15. Also btrfs 4.4 (same workload).
# Consequence: renamed file bar lost.

workload generic_342
source B3 reproduced bug 18
source generic_342.cpp
expect A/foo has 4K, A/bar has 16K
setup
mkdir A
creat A/foo
write A/foo 0 16K
sync
run
rename A/foo A/bar
creat A/foo
write A/foo 0 4K
fsync A/foo; !
