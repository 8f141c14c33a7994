# Known bug in btrfs, seen in Linux 4.4.
# Consequence: A/Y and its files are lost.
# In ACE: creat A/foo, rename A B, mkdir A / sync, none, fsync A.

workload generic_341
source B3 reproduced bug 17
source generic_341.cpp
expect A/X is empty
expect A/Y has foo and bar
setup
mkdir A
mkdir A/X
creat A/X/foo
write A/X/foo 0 8K
creat A/X/bar
write A/X/bar 0 8K
sync
run
rename A/X A/Y
mkdir A/X
fsync A/X; !
