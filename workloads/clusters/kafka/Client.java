import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Client and probe of a topic with one partition and three replicas.
 *
 * <pre>
 * prepare        makes the topic, and waits until all replicas are in sync
 * work MESSAGES  sends so many messages, each when the one before it is acknowledged, and prints a history: each
 *                message is added to a set. On SIGTERM, or after the last message, it reads all of them.
 * probe          answers each line on its input with lines NODE ROLE, and `end`
 * </pre>
 *
 * CRASHPOINT_NODE_&lt;NAME&gt; says where a node is.
 */
final class Client {
    private static final TopicPartition TOPIC = new TopicPartition("messages", 0);
    private static final short REPLICAS = 3;
    private static final int PORT = 9092;
    private static final int WITHIN_MS = 4000;
    private static final int READ_WITHIN_MS = 60_000;
    private static final long PAUSE_MS = 20;

    private static volatile boolean isOver;

    public static void main(String[] words) throws Exception {
        switch (words[0]) {
            case "prepare":
                prepare();
                break;
            case "work":
                work(Long.parseLong(words[1]));
                break;
            case "probe":
                probe();
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
        // What the libraries have started does not keep it.
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static Properties brokers() {
        List<String> all = new ArrayList<>();
        for (Map.Entry<String, String> variable : System.getenv().entrySet()) {
            if (variable.getKey().startsWith("CRASHPOINT_NODE_")) all.add(variable.getValue() + ":" + PORT);
        }
        Properties properties = new Properties();
        properties.put("bootstrap.servers", String.join(",", all));
        properties.put("reconnect.backoff.max.ms", "300");
        properties.put("socket.connection.setup.timeout.ms", "500");
        properties.put("request.timeout.ms", "1500");
        properties.put("metadata.max.age.ms", "1000");
        return properties;
    }

    private static void prepare() throws Exception {
        try (Admin admin = Admin.create(brokers())) {
            NewTopic topic = new NewTopic(TOPIC.topic(), 1, REPLICAS);
            admin.createTopics(Collections.singleton(topic)).all().get(30, TimeUnit.SECONDS);
            while (partition(admin) == null || partition(admin).isr().size() < REPLICAS) Thread.sleep(100);
        }
    }

    /** Null if it is not known yet. */
    private static TopicPartitionInfo partition(Admin admin) throws InterruptedException {
        try {
            return admin.describeTopics(Collections.singleton(TOPIC.topic())).allTopicNames().get().get(TOPIC.topic())
                .partitions().get(0);
        } catch (ExecutionException error) {
            return null;
        }
    }

    private static void work(long messages) throws Exception {
        Thread worker = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            isOver = true;
            try {
                worker.join();
            } catch (InterruptedException error) {
                worker.interrupt();
            }
        }));
        Properties properties = brokers();
        properties.put("acks", "all");
        properties.put("delivery.timeout.ms", String.valueOf(WITHIN_MS));
        properties.put("max.block.ms", String.valueOf(WITHIN_MS));
        properties.put("linger.ms", "0");
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            int process = 0;
            for (long value = 1; value <= messages && !isOver; value++) {
                say("invoke", process, "add", String.valueOf(value));
                ProducerRecord<String, String> message =
                    new ProducerRecord<>(TOPIC.topic(), TOPIC.partition(), null, String.valueOf(value));
                try {
                    producer.send(message).get();
                    say("ok", process, "add", String.valueOf(value));
                } catch (ExecutionException error) {
                    // It may be there yet.
                    say("info", process, "add", String.valueOf(value));
                    process++;
                }
                Thread.sleep(PAUSE_MS);
            }
        }
        read();
    }

    /** All messages, up to the end that the leader knows. */
    private static void read() {
        int process = 1_000_000;
        Properties properties = brokers();
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("default.api.timeout.ms", String.valueOf(READ_WITHIN_MS));
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        say("invoke", process, "read", "null");
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            consumer.assign(Collections.singleton(TOPIC));
            long end = consumer.endOffsets(Collections.singleton(TOPIC)).get(TOPIC);
            consumer.seekToBeginning(Collections.singleton(TOPIC));
            long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(READ_WITHIN_MS);
            while (consumer.position(TOPIC) < end) {
                if (System.nanoTime() > until) throw new IllegalStateException("no end of the messages");
                consumer.poll(Duration.ofMillis(200)).forEach(message -> values.add(message.value()));
            }
        } catch (RuntimeException error) {
            System.err.println(error);
            say("fail", process, "read", "null");
            return;
        }
        say("ok", process, "read", "[" + String.join(",", values) + "]");
    }

    private static void say(String type, int process, String f, String value) {
        System.out.println("{\"type\":\"" + type + "\",\"process\":" + process + ",\"f\":\"" + f
            + "\",\"key\":\"messages\",\"value\":" + value + "}");
    }

    private static void probe() throws InterruptedException {
        Scanner questions = new Scanner(System.in);
        try (Admin admin = Admin.create(brokers())) {
            while (questions.hasNextLine()) {
                questions.nextLine();
                TopicPartitionInfo partition = partition(admin);
                if (partition != null) System.out.print(roles(partition));
                System.out.println("end");
            }
        }
    }

    /** A replica that is not in sync has no role, and neither has a leader that is not there. */
    private static String roles(TopicPartitionInfo partition) {
        Node leader = partition.leader();
        return partition.isr().stream()
            .map(node -> "n" + node.id() + (node.equals(leader) ? " leader\n" : " follower\n"))
            .collect(Collectors.joining());
    }
}
