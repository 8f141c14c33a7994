# Known bug in btrfs, seen in Linux 3.13.
# Consequence: the moved file is lost.
# In ACE: rename(A/foo,foo), creat bar, fsync test (ace.py #24, larger file set).

workload generic_335
source B3 reproduced bug 15
source generic_335.cpp
expect A/bar and C/foo exist
setup
mkdir A
mkdir A/B
mkdir C
creat A/B/foo
sync
run
rename A/B/foo C/foo
creat A/bar
fsync A; !
