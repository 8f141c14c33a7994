# Known bug in btrfs, seen in Linux 4.4.
# Consequence: bar is lost (neither in B nor in C).

workload generic_336
source B3 reproduced bug 16
source generic_336.cpp
expect B/bar is at C/bar and nowhere else
setup
mkdir A
mkdir B
mkdir C
creat A/foo
link A/foo B/foo_link
creat B/bar
sync
run
unlink B/foo_link
rename B/bar C/bar
fsync A/foo; !
