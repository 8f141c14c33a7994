#!/bin/sh
# A client of HDFS: client.sh work|look|check ARGUMENT..., as Client.java says.
here=$(dirname "$(realpath "$0")")
hdfs=$here/../../../target/neat/hdfs-ha
exec "$hdfs/../jdk/home/bin/java" -Xmx64m -XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC \
    -Djava.net.preferIPv4Stack=true -Dnode.ip=0.0.0.0 -Dnode.dir=/tmp \
    -cp "$here/conf:$hdfs/classes:$hdfs/jars/*" Client "$@"
