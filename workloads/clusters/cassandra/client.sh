#!/bin/sh
# The client of Cassandra: client.sh prepare|work|check …, see Client.java.
set -eu
here=$(dirname "$(realpath "$0")")
neat=$here/../../../target/neat
exec "$neat/jdk/home/bin/java" -Xmx128m -XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC \
    -Djava.net.preferIPv4Stack=true -Dlogback.configurationFile="$here/logback.xml" -Dlevel=OFF \
    -cp "$neat/cassandra/classes:$neat/cassandra/jars/*" Client "$@"
