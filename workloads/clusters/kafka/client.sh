#!/bin/sh
# The client of Kafka: client.sh prepare|work|probe …, see Client.java.
set -eu
neat=$(dirname "$(realpath "$0")")/../../../target/neat
exec "$neat/jdk/home/bin/java" -Xmx128m -XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC \
    -Djava.net.preferIPv4Stack=true -Dorg.slf4j.simpleLogger.defaultLogLevel=off \
    -cp "$neat/kafka/classes:$neat/kafka/jars/*" Client "$@"
