import java.util.Properties;
import org.apache.geode.cache.Cache;
import org.apache.geode.cache.CacheFactory;
import org.apache.geode.cache.Region;
import org.apache.geode.cache.RegionShortcut;
import org.apache.geode.cache.Scope;
import org.apache.geode.distributed.DistributedLockService;
import org.apache.geode.distributed.internal.InternalDistributedSystem;
import org.apache.geode.distributed.internal.membership.NetView;

/** A node of Geode: Node ADDRESS ADDRESS,... Each has a locator, and everything is kept on all of them. */
public final class Node extends Door {
    private static final int LOCATOR_PORT = 10334;
    private static final int WAIT_MS = 1000;
    private static final int WITHOUT_END = -1;

    private Cache cache;
    private Region<String, String> map;
    private DistributedLockService locks;

    private Node(String address, String[] nodes) {
        StringBuilder locators = new StringBuilder();
        for (String node : nodes) {
            locators.append(locators.length() == 0 ? "" : ",").append(node).append('[').append(LOCATOR_PORT).append(']');
        }
        Properties config = new Properties();
        config.setProperty("name", address);
        config.setProperty("bind-address", address);
        config.setProperty("locators", locators.toString());
        config.setProperty("start-locator", address + "[" + LOCATOR_PORT + "],peer=true,server=false");
        config.setProperty("mcast-port", "0");
        config.setProperty("jmx-manager", "false");
        config.setProperty("http-service-port", "0");
        config.setProperty("enable-cluster-configuration", "false");
        config.setProperty("use-cluster-configuration", "false");
        config.setProperty("enable-network-partition-detection", System.getProperty("detection", "true"));
        // Times that a test can wait for; the defaults are 5 s, and a minute.
        config.setProperty("member-timeout", System.getProperty("detect.ms", "1000"));
        config.setProperty("max-wait-time-reconnect", "2000");
        open(new CacheFactory(config).create());
    }

    public static void main(String[] words) throws Exception {
        new Node(words[0], words[1].split(",")).open(words[0]);
    }

    private void open(Cache opened) {
        cache = opened;
        map = cache.getRegion("map");
        if (map == null) map = cache.<String, String>createRegionFactory(RegionShortcut.REPLICATE).setScope(Scope.GLOBAL).create("map");
        locks = DistributedLockService.getServiceNamed("locks");
        if (locks == null) locks = DistributedLockService.create("locks", cache.getDistributedSystem());
    }

    /** A node that was shut out opens its cache again by itself. */
    private synchronized void reopen() {
        Cache again = cache.isClosed() ? cache.getReconnectedCache() : null;
        if (again != null) open(again);
    }

    @Override
    Object run(String operation, String name, String value) throws Exception {
        reopen();
        switch (operation) {
            case "get": return map.get(name);
            case "put": map.put(name, value); return "ok";
            case "lock": return locks.lock(name, WAIT_MS, WITHOUT_END);
            case "held": return locks.isHeldByCurrentThread(name);
            case "unlock": locks.unlock(name); return "ok";
            case "members": return members();
            default: throw new IllegalArgumentException(operation);
        }
    }

    /** Whether this node coordinates the others, and how many there are. */
    private String members() {
        InternalDistributedSystem system = (InternalDistributedSystem) cache.getDistributedSystem();
        NetView view = system.getDistributionManager().getMembershipManager().getView();
        boolean coordinates = system.getDistributedMember().equals(view.getCoordinator());
        return (coordinates ? "coordinator " : "member ") + view.size();
    }
}
