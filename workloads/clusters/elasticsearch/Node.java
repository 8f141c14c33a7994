import org.elasticsearch.action.get.GetResponse;
import org.elasticsearch.client.Client;
import org.elasticsearch.cluster.node.DiscoveryNode;
import org.elasticsearch.cluster.node.DiscoveryNodes;
import org.elasticsearch.common.settings.ImmutableSettings;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.indices.IndexAlreadyExistsException;
import org.elasticsearch.node.NodeBuilder;

/** A node of Elasticsearch: Node ADDRESS DIRECTORY ADDRESS,... One shard, of which each node has a copy. */
public final class Node extends Door {
    private static final String INDEX = "things";
    private static final String TYPE = "thing";
    private static final String WRITE_WITHIN = "5s";
    private static final int TRY_EVERY_MS = 200;

    private final String address;
    private final Client client;

    private Node(String address, String directory, String nodes) {
        this.address = address;
        Settings settings = ImmutableSettings.settingsBuilder()
            .put("cluster.name", "crashpoint")
            .put("node.name", address)
            .put("path.home", directory)
            .put("network.host", address)
            .put("http.enabled", false)
            .put("discovery.zen.ping.multicast.enabled", false)
            .putArray("discovery.zen.ping.unicast.hosts", nodes.split(","))
            .put("discovery.zen.minimum_master_nodes", Integer.getInteger("masters", 2))
            // Times that a test can wait for; the defaults are 3 s, 30 s, and three times.
            .put("discovery.zen.ping_timeout", "1s")
            .put("discovery.zen.fd.ping_interval", "500ms")
            .put("discovery.zen.fd.ping_timeout", "1s")
            .put("discovery.zen.fd.ping_retries", 2)
            .put("discovery.zen.publish_timeout", "5s")
            .put("index.number_of_shards", 1)
            .put("index.number_of_replicas", nodes.split(",").length - 1)
            .build();
        client = NodeBuilder.nodeBuilder().settings(settings).loadConfigSettings(false).node().client();
    }

    public static void main(String[] words) throws Exception {
        Node node = new Node(words[0], words[1], words[2]);
        node.createIndex(words[2].split(",").length);
        node.open(words[0]);
    }

    /** Until all nodes are there, and all copies. */
    private void createIndex(int nodes) throws InterruptedException {
        while (nodes().size() < nodes) Thread.sleep(TRY_EVERY_MS);
        try {
            client.admin().indices().prepareCreate(INDEX).get();
        } catch (IndexAlreadyExistsException another) {
            // Another node was faster.
        }
        client.admin().cluster().prepareHealth(INDEX).setWaitForGreenStatus().setTimeout("60s").get();
    }

    private DiscoveryNodes nodes() {
        return client.admin().cluster().prepareState().setLocal(true).get().getState().nodes();
    }

    @Override
    Object run(String operation, String name, String value) throws Exception {
        switch (operation) {
            case "get": return get(name);
            case "put":
                client.prepareIndex(INDEX, TYPE, name).setSource("value", value).setTimeout(WRITE_WITHIN).get();
                return "ok";
            case "members": return members();
            default: throw new IllegalArgumentException(operation);
        }
    }

    /** What this node's own copy has. */
    private Object get(String name) {
        GetResponse found = client.prepareGet(INDEX, TYPE, name).setPreference("_local").get();
        return found.isExists() ? found.getSource().get("value") : null;
    }

    /** Whether this node is the master, and how many nodes it knows; without a master it knows none. */
    private String members() {
        DiscoveryNodes nodes = nodes();
        DiscoveryNode master = nodes.masterNode();
        if (master == null) return "member 0";
        return (master.getName().equals(address) ? "master " : "member ") + nodes.size();
    }
}
