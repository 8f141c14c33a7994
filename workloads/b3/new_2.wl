# New bug in btrfs, seen in Linux 4.16.0-041600, found by B3.
# Consequence: the file is in source and destination (2 links instead of 1).
# ACE needs its nested set of files for it.

workload new_2
source B3 new bug 2
source bug-2.cpp
expect bar is at exactly one path and has 1 link
mkdir A
mkdir A/C
rename A/C B
creat B/bar
fsync B/bar; !
rename B/bar A/bar
rename A B
fsync B/bar; !
