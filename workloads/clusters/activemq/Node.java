import java.io.File;
import java.util.concurrent.CountDownLatch;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.leveldb.replicated.ElectingLevelDBStore;
import org.apache.activemq.leveldb.replicated.groups.ZooKeeperGroup;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.server.quorum.QuorumPeerMain;

/** A node of ActiveMQ: Node ADDRESS ADDRESS,... DIRECTORY. Each has a server of ZooKeeper, and a broker. One of these is the master. */
public final class Node extends Door {
    private static final int PORT = 61616;
    private static final int REPLICATION_PORT = 61619;
    private static final int ZOOKEEPER_PORT = 2181;
    private static final int SESSION_MS = 4000;
    private static final int WAIT_MS = 500;
    /** Whether an element counts as taken only when the broker has answered its acknowledgement. */
    private static final boolean ACKNOWLEDGES = Boolean.getBoolean("acknowledges");
    private static final int AGAIN_AFTER_MS = 1000;

    private final String address;
    private final String zookeepers;
    private final File directory;
    private volatile ElectingLevelDBStore store;
    private volatile BrokerService broker = new BrokerService();

    private Node(String address, String[] nodes, String directory) {
        this.address = address;
        this.directory = new File(directory);
        zookeepers = String.join(":" + ZOOKEEPER_PORT + ",", nodes) + ":" + ZOOKEEPER_PORT;
    }

    public static void main(String[] words) throws Exception {
        Node node = new Node(words[0], words[1].split(","), words[2]);
        new Thread(() -> QuorumPeerMain.main(new String[] {words[2] + "/zoo.cfg"})).start();
        new Thread(node::serve).start();
        node.open(words[0]);
    }

    /** A broker that is no longer the master stops, and is started again. */
    private void serve() {
        while (true) {
            try {
                waitForZooKeeper();
                broker = newBroker();
                broker.start();
                broker.waitUntilStopped();
            } catch (Exception error) {
                error.printStackTrace();
            }
            pause();
        }
    }

    private static void pause() {
        try {
            Thread.sleep(AGAIN_AFTER_MS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** A store that does not find it at once may never find it. */
    private void waitForZooKeeper() throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(zookeepers, SESSION_MS, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) connected.countDown();
        });
        connected.await();
        client.close();
    }

    private BrokerService newBroker() throws Exception {
        store = new ElectingLevelDBStore();
        store.setDirectory(new File(directory, "leveldb"));
        store.setReplicas(Integer.getInteger("replicas", 3));
        store.setBind("tcp://" + address + ":" + REPLICATION_PORT);
        store.setHostname(address);
        store.setZkAddress(zookeepers);
        store.setZkPath("/activemq");
        store.setZkSessionTimeout(SESSION_MS / 1000 + "s");
        BrokerService made = new BrokerService();
        made.setBrokerName("broker");
        made.setUseJmx(false);
        made.setUseShutdownHook(false);
        made.setDataDirectoryFile(directory);
        made.setPersistenceAdapter(store);
        made.addConnector("tcp://" + address + ":" + PORT);
        return made;
    }

    @Override
    Object run(String operation, String name, String value) throws Exception {
        if (operation.equals("members")) return members();
        if (!broker.isStarted()) return false;
        Connection connection = connect();
        if (connection == null) return false;
        try {
            Session session = connection.createSession(false, ACKNOWLEDGES ? Session.CLIENT_ACKNOWLEDGE : Session.AUTO_ACKNOWLEDGE);
            return operation.equals("offer") ? offer(session, name, value) : poll(session, name);
        } finally {
            connection.close();
        }
    }

    /** A connection that asks for each element when it is wanted, or null if there is no broker. */
    private Connection connect() throws JMSException {
        Connection connection = null;
        try {
            connection = new ActiveMQConnectionFactory("tcp://" + address + ":" + PORT
                + "?jms.prefetchPolicy.all=0&jms.closeTimeout=1000&jms.sendAcksAsync=" + !ACKNOWLEDGES).createConnection();
            connection.start();
            return connection;
        } catch (JMSException error) {
            if (connection != null) connection.close();
            return null;
        }
    }

    private static String offer(Session session, String name, String value) throws JMSException {
        MessageProducer producer = session.createProducer(session.createQueue(name));
        producer.send(session.createTextMessage(value));
        return "ok";
    }

    /** That nothing came in time does not mean that there is nothing. */
    private static Object poll(Session session, String name) throws JMSException {
        Queue queue = session.createQueue(name);
        MessageConsumer consumer = session.createConsumer(queue);
        TextMessage message = (TextMessage) consumer.receive(WAIT_MS);
        if (message == null) return false;
        // Who is told that it may have been delivered before does not know whether this takes it.
        if (message.getJMSRedelivered()) throw new JMSException("redelivered: " + message.getText());
        if (ACKNOWLEDGES) message.acknowledge();
        return message.getText();
    }

    /** Whether this broker is the master, and how many it knows by ZooKeeper. */
    private String members() {
        ZooKeeperGroup group = store == null ? null : store.zk_group();
        int known = group == null || !group.connected() ? 1 : group.members().size();
        return (broker.isStarted() ? "master " : "slave ") + known;
    }
}
