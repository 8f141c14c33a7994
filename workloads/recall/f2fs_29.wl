# A regression that was brought back into f2fs of Linux 6.1: fsynced new name lost.

workload f2fs_29
source the mechanism of generic_322 (effect)
expect A/bar exists, A/foo does not
setup
mkdir A
creat A/foo
syncfs
run
rename A/foo A/bar
fsync A/bar; !
