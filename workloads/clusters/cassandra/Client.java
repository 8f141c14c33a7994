import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ConsistencyLevel;
import org.apache.cassandra.db.marshal.UUIDType;
import org.apache.cassandra.transport.ProtocolVersion;
import org.apache.cassandra.transport.SimpleClient;
import org.apache.cassandra.transport.messages.ResultMessage;

/**
 * Has nodes of Cassandra create tables.
 *
 * <pre>
 * prepare       makes the keyspace, of which each node has a copy
 * work SECONDS  creates table after table, each through one node after the other if it does not exist there, and
 *               prints a history: a table is added to a set. As drivers do, it waits after each for the nodes to
 *               agree on their schema, but not for long. On SIGTERM it waits until they agree, and reads the set:
 *               the tables that can be written and read on all nodes.
 * check         prints `ok` if the nodes agree on their schema, or come to, else `broken`
 * </pre>
 *
 * CRASHPOINT_NODE_&lt;NAME&gt; says where a node is.
 */
final class Client {
    private static final int PORT = 9042;
    private static final long PAUSE_MS = 200;
    private static final long AGREED_WITHIN_MS = 2000;
    private static final long AGREED_IN_THE_END_MS = 30_000;
    private static final long ANSWERED_WITHIN_S = 12;
    private static final ExecutorService ASKING = Executors.newCachedThreadPool();
    private static final long USABLE_WITHIN_MS = 40_000;
    private static final int LAST = 1_000_000;

    private static volatile boolean isOver;

    public static void main(String[] words) throws Exception {
        // Its limits of messages are among the defaults of a configuration.
        DatabaseDescriptor.clientInitialization();
        switch (words[0]) {
            case "prepare":
                prepare();
                break;
            case "work":
                work(Double.parseDouble(words[1]));
                break;
            case "check":
                check();
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
        // What the libraries have started does not keep it.
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    /** A node, and the connection to it. */
    private static final class Node {
        final String name;
        private final String address;
        private volatile SimpleClient connection;

        Node(String name, String address) {
            this.name = name;
            this.address = address;
        }

        /** What it answers, if it does in time. After an exception nobody knows what it did. */
        ResultMessage run(String query, ConsistencyLevel level) throws Exception {
            Future<ResultMessage> answer = ASKING.submit(() -> ask(query, level));
            try {
                return answer.get(ANSWERED_WITHIN_S, TimeUnit.SECONDS);
            } catch (Exception error) {
                // An answer that comes later is not that of another question.
                connection = null;
                answer.cancel(true);
                throw error;
            }
        }

        private ResultMessage ask(String query, ConsistencyLevel level) throws Exception {
            SimpleClient client = connection;
            if (client == null) {
                client = new SimpleClient(address, PORT, ProtocolVersion.V4);
                client.connect(false);
                connection = client;
            }
            return client.execute(query, level);
        }

        /** A word for its schema, or null if it does not say. */
        String schema() {
            try {
                ResultMessage.Rows rows =
                    (ResultMessage.Rows) run("SELECT schema_version FROM system.local", ConsistencyLevel.ONE);
                ByteBuffer version = rows.result.rows.get(0).get(0);
                return UUIDType.instance.compose(version).toString().substring(0, 8);
            } catch (Exception error) {
                System.err.println(name + ": " + error);
                return null;
            }
        }
    }

    private static List<Node> nodes() {
        Map<String, Node> nodes = new TreeMap<>();
        System.getenv().forEach((variable, address) -> {
            if (variable.startsWith("CRASHPOINT_NODE_")) {
                String name = variable.substring("CRASHPOINT_NODE_".length()).toLowerCase();
                nodes.put(name, new Node(name, address));
            }
        });
        return new ArrayList<>(nodes.values());
    }

    /** Whether all nodes have one schema within a time. */
    private static boolean agree(List<Node> nodes, long withinMs) throws InterruptedException {
        long until = System.nanoTime() + withinMs * 1_000_000;
        do {
            Set<String> schemas = new TreeSet<>();
            for (Node node : nodes) schemas.add(String.valueOf(node.schema()));
            if (schemas.size() == 1 && !schemas.contains("null")) return true;
            Thread.sleep(100);
        } while (System.nanoTime() < until);
        return false;
    }

    private static void prepare() throws Exception {
        List<Node> nodes = nodes();
        // They say that they listen a moment before they do.
        if (!agree(nodes, AGREED_IN_THE_END_MS)) throw new IllegalStateException("the nodes do not come together");
        nodes.get(0).run("CREATE KEYSPACE crashpoint WITH replication = {'class': 'SimpleStrategy', "
            + "'replication_factor': " + nodes.size() + "}", ConsistencyLevel.ONE);
        if (!agree(nodes, AGREED_IN_THE_END_MS)) throw new IllegalStateException("the nodes do not agree");
    }

    private static void work(double seconds) throws Exception {
        Thread worker = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            isOver = true;
            try {
                worker.join();
            } catch (InterruptedException error) {
                worker.interrupt();
            }
        }));
        List<Node> nodes = nodes();
        int[] processes = new int[nodes.size()];
        for (int place = 0; place < processes.length; place++) processes[place] = place;
        long until = System.nanoTime() + (long) (seconds * 1e9);
        int tables = 0;
        while (!isOver && System.nanoTime() < until) {
            for (int place = 0; place < nodes.size() && !isOver; place++) {
                if (!create(nodes.get(place), processes[place], tables)) processes[place] += nodes.size();
                agree(nodes, AGREED_WITHIN_MS);
                Thread.sleep(PAUSE_MS);
            }
            tables++;
        }
        look(nodes, tables);
    }

    /** Whether it was answered. */
    private static boolean create(Node node, int process, int table) {
        say("invoke", process, "add", String.valueOf(table));
        try {
            node.run("CREATE TABLE IF NOT EXISTS " + name(table) + " (k int PRIMARY KEY, v int)", ConsistencyLevel.ONE);
            say("ok", process, "add", String.valueOf(table));
            return true;
        } catch (Exception error) {
            System.err.println(node.name + ": " + error);
            say("info", process, "add", String.valueOf(table));
            return false;
        }
    }

    private static String name(int table) {
        return "crashpoint.t" + table;
    }

    /** Which tables can be used: a node may need a moment to know that the others are back. */
    private static void look(List<Node> nodes, int tables) throws InterruptedException {
        agree(nodes, AGREED_IN_THE_END_MS);
        say("invoke", LAST, "read", "null");
        long until = System.nanoTime() + USABLE_WITHIN_MS * 1_000_000;
        List<String> usable = new ArrayList<>();
        for (int table = 0; table < tables; table++) {
            if (isUsable(nodes, table, until)) usable.add(String.valueOf(table));
        }
        say("ok", LAST, "read", "[" + String.join(",", usable) + "]");
    }

    /** Whether each node can have all nodes write to a table and read from it, by some time, or at least now. */
    private static boolean isUsable(List<Node> nodes, int table, long until) throws InterruptedException {
        for (Node node : nodes) {
            while (true) {
                try {
                    node.run("INSERT INTO " + name(table) + " (k, v) VALUES (1, 1)", ConsistencyLevel.ALL);
                    node.run("SELECT v FROM " + name(table) + " WHERE k = 1", ConsistencyLevel.ALL);
                    break;
                } catch (Exception error) {
                    System.err.println("table " + table + " through " + node.name + ": " + error);
                    if (System.nanoTime() > until) return false;
                    Thread.sleep(500);
                }
            }
        }
        return true;
    }

    private static void check() throws InterruptedException {
        List<Node> nodes = nodes();
        if (agree(nodes, AGREED_IN_THE_END_MS)) {
            System.out.println("ok");
            return;
        }
        List<String> schemas = new ArrayList<>();
        for (Node node : nodes) schemas.add(node.name + " has " + node.schema());
        System.out.println("broken: the nodes do not come to one schema: " + String.join(", ", schemas));
    }

    private static void say(String type, int process, String f, String value) {
        System.out.println("{\"type\":\"" + type + "\",\"process\":" + process + ",\"f\":\"" + f
            + "\",\"key\":\"tables\",\"value\":" + value + "}");
    }
}
