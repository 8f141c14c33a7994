# Known bug in btrfs, seen in Linux 4.4.
# Consequence: the new A/foo is lost.
# In ACE: rename foo bar, creat foo / none, fsync bar.

workload generic_376
source B3 reproduced bug 21
source generic_376.cpp
expect A/foo and A/bar exist
setup
mkdir A
creat A/foo
fsync A
fsync A/foo
sync
run
rename A/foo A/bar
creat A/foo
fsync A/bar; !
