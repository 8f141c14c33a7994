#!/bin/sh
# Four processes, in a guest, that draw numbers, look at the clock, sync what they write, and sleep by
# turns. The last one is ended with SIGKILL in the middle. What they wrote goes to DIR.
#
#   crashpoint machine --virtual-time --seed 1 --share DIR -- sh several.sh DIR
set -eu

OUT=$1
ROUNDS=12

mkdir /tmp/several
cd /tmp/several
work() {
    name=$1
    round=0
    while [ $round -lt $ROUNDS ]; do
        round=$((round + 1))
        drawn=$(od -An -N2 -tu2 /dev/urandom)
        echo "$round $(date +%s.%N) $drawn" >>"$name"
        # In which order they come is of interest, too.
        echo "$name $round" >>together
        sync "$name"
        sleep "0.0$((drawn % 90 + 10))"
    done
}
for name in one two three four; do
    work $name &
done
last=$!
sleep 0.3
kill -KILL $last
wait
echo "the last one was killed after $(wc -l <four) rounds"

cp -r . "$OUT"
