import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.TreeMap;
import java.util.logging.LogManager;
import jetbrains.exodus.bindings.StringBinding;
import jetbrains.exodus.env.Cursor;
import jetbrains.exodus.env.Environment;
import jetbrains.exodus.env.EnvironmentConfig;
import jetbrains.exodus.env.Environments;
import jetbrains.exodus.env.StoreConfig;
import org.iq80.leveldb.Options;
import org.iq80.leveldb.WriteOptions;
import org.iq80.leveldb.impl.Iq80DBFactory;
import org.mapdb.DBMaker;
import org.mapdb.HTreeMap;
import org.mapdb.Serializer;

/**
 * Stores for Java, each as a program: it makes the transactions of ../README.md and says which are
 * committed, and checks what a crash left of them.
 *
 * <pre>
 *     Stores STORE run DIR
 *     Stores STORE check DIR ACKS
 *     Stores STORE check --serve
 * </pre>
 */
public class Stores {
  static final int TRANSACTIONS = 8;

  static String value(String key, int number, int length) {
    var text = new StringBuilder();
    for (int word = 0; text.length() < length; word++) {
      text.append(key).append('/').append(number).append(':').append(word).append(' ');
    }
    return text.substring(0, length);
  }

  /** What commit `number` does, from 1 on: keys and values, null for one that is deleted. */
  static Map<String, String> transaction(int number) {
    var changes = new LinkedHashMap<String, String>();
    changes.put("counter", "" + number);
    String small = "small" + number % 3, big = "big" + number % 2, added = "new" + number;
    changes.put(small, value(small, number, 400));
    changes.put(big, value(big, number, 8192));
    changes.put(added, value(added, number, 400));
    if (number > 3) changes.put("new" + (number - 3), null);
    return changes;
  }

  /** The store after commit `number`; it is empty after 0. */
  static Map<String, String> after(int number) {
    var state = new TreeMap<String, String>();
    for (int n = 1; n <= number; n++) state.putAll(transaction(n));
    state.values().removeIf(Objects::isNull);
    return state;
  }

  /** A store that is open. It is made if there is none. */
  interface Store extends AutoCloseable {
    /** Makes the changes durable, all or none. */
    void commit(Map<String, String> changes) throws Exception;

    /** Does what the store does in the background at times, now. */
    default void tidy() throws Exception {}

    Map<String, String> contents() throws Exception;
  }

  interface Open {
    Store in(String directory) throws Exception;
  }

  /** A table of a database that is part of the program. */
  abstract static class Table implements Store {
    final Connection connection;

    /** `settings` are statements that are made first. */
    Table(String url, String... settings) throws SQLException {
      connection = DriverManager.getConnection(url, "SA", "");
      try {
        for (String setting : settings) execute(setting);
        connection.setAutoCommit(false);
      } catch (SQLException error) {
        // Nothing of one state is to be open in the next.
        connection.close();
        throw error;
      }
    }

    void execute(String sql) throws SQLException {
      try (Statement statement = connection.createStatement()) {
        statement.execute(sql);
      }
    }

    boolean hasTable() throws SQLException {
      try (ResultSet tables = connection.getMetaData().getTables(null, null, "PAIRS", null)) {
        return tables.next();
      }
    }

    void update(String sql, String... values) throws SQLException {
      try (PreparedStatement statement = connection.prepareStatement(sql)) {
        for (int i = 0; i < values.length; i++) statement.setString(i + 1, values[i]);
        statement.executeUpdate();
      }
    }

    @Override
    public void commit(Map<String, String> changes) throws Exception {
      if (!hasTable()) {
        execute("create table pairs (name varchar(40) primary key, text varchar(20000))");
      }
      for (var change : changes.entrySet()) {
        update("delete from pairs where name = ?", change.getKey());
        if (change.getValue() != null) {
          update("insert into pairs values (?, ?)", change.getKey(), change.getValue());
        }
      }
      connection.commit();
    }

    @Override
    public Map<String, String> contents() throws Exception {
      var contents = new TreeMap<String, String>();
      if (!hasTable()) return contents;
      try (Statement statement = connection.createStatement();
          ResultSet rows = statement.executeQuery("select name, text from pairs")) {
        while (rows.next()) contents.put(rows.getString(1), rows.getString(2));
      }
      return contents;
    }

    @Override
    public void close() throws Exception {
      try (connection) {
        connection.rollback();
      }
    }
  }

  /** H2: what was committed is written at once, and not after a delay. */
  static class H2 extends Table {
    final boolean isSynced;

    H2(String directory, boolean isSynced) throws SQLException {
      super("jdbc:h2:file:" + directory + "/db", "set write_delay 0");
      this.isSynced = isSynced;
    }

    @Override
    public void commit(Map<String, String> changes) throws Exception {
      super.commit(changes);
      // The documented way to have it on the disk.
      if (isSynced) execute("checkpoint sync");
    }

    @Override
    public void tidy() throws Exception {
      execute("checkpoint sync");
    }
  }

  /** HSQLDB: each commit is synced. */
  static class Hsqldb extends Table {
    final String url;

    /** A check looks without the lock: its heartbeat is that of a machine that still runs. */
    Hsqldb(String directory, boolean isCheck) throws SQLException {
      this("jdbc:hsqldb:file:" + directory + "/db;hsqldb.lock_file=" + !isCheck);
    }

    private Hsqldb(String url) throws SQLException {
      super(url, "set files write delay false");
      this.url = url;
    }

    @Override
    public void tidy() throws Exception {
      execute("checkpoint");
    }

    @Override
    public void close() throws Exception {
      try (connection) {
        execute("shutdown");
      }
    }
  }

  /** Derby, whose commits sync its log. */
  static class Derby extends Table {
    final String directory;

    Derby(String directory) throws SQLException {
      super("jdbc:derby:directory:" + directory + "/db;create=true");
      this.directory = directory;
    }

    @Override
    public void tidy() throws Exception {
      execute("call syscs_util.syscs_checkpoint_database()");
    }

    @Override
    public void close() throws Exception {
      try {
        super.close();
      } finally {
        try {
          DriverManager.getConnection("jdbc:derby:directory:" + directory + "/db;shutdown=true");
        } catch (SQLException done) {
          // That it is shut down is an exception.
        }
      }
    }
  }

  /** MapDB with transactions. */
  static class MapDb implements Store {
    final org.mapdb.DB db;
    final HTreeMap<String, String> pairs;

    MapDb(String directory) {
      db = DBMaker.fileDB(directory + "/db").transactionEnable().make();
      try {
        pairs = db.hashMap("pairs", Serializer.STRING, Serializer.STRING).createOrOpen();
      } catch (Throwable error) {
        db.close();
        throw error;
      }
    }

    @Override
    public void commit(Map<String, String> changes) {
      for (var change : changes.entrySet()) {
        if (change.getValue() == null) pairs.remove(change.getKey());
        else pairs.put(change.getKey(), change.getValue());
      }
      db.commit();
    }

    @Override
    public Map<String, String> contents() {
      var contents = new TreeMap<String, String>();
      for (var pair : pairs.getEntries()) contents.put(pair.getKey(), pair.getValue());
      return contents;
    }

    @Override
    public void close() {
      db.close();
    }
  }

  /** Xodus with durable writes. */
  static class Xodus implements Store {
    final Environment environment;

    Xodus(String directory) {
      var config = new EnvironmentConfig().setLogDurableWrite(true).setManagementEnabled(false);
      environment = Environments.newInstance(directory + "/db", config);
    }

    @Override
    public void commit(Map<String, String> changes) {
      environment.executeInTransaction(
          transaction -> {
            var pairs = environment.openStore("pairs", StoreConfig.WITHOUT_DUPLICATES, transaction);
            for (var change : changes.entrySet()) {
              var key = StringBinding.stringToEntry(change.getKey());
              if (change.getValue() == null) pairs.delete(transaction, key);
              else pairs.put(transaction, key, StringBinding.stringToEntry(change.getValue()));
            }
          });
    }

    @Override
    public Map<String, String> contents() {
      var contents = new TreeMap<String, String>();
      environment.executeInReadonlyTransaction(
          transaction -> {
            if (!environment.storeExists("pairs", transaction)) return;
            var pairs = environment.openStore("pairs", StoreConfig.WITHOUT_DUPLICATES, transaction);
            try (Cursor cursor = pairs.openCursor(transaction)) {
              while (cursor.getNext()) {
                contents.put(
                    StringBinding.entryToString(cursor.getKey()),
                    StringBinding.entryToString(cursor.getValue()));
              }
            }
          });
      return contents;
    }

    @Override
    public void close() {
      environment.close();
    }
  }

  /** LevelDB in Java, each batch with sync. */
  static class Iq80 implements Store {
    final org.iq80.leveldb.DB db;

    Iq80(String directory) throws IOException {
      db = Iq80DBFactory.factory.open(new File(directory, "db"), new Options());
    }

    @Override
    public void commit(Map<String, String> changes) throws IOException {
      try (var batch = db.createWriteBatch()) {
        for (var change : changes.entrySet()) {
          byte[] key = change.getKey().getBytes(UTF_8);
          if (change.getValue() == null) batch.delete(key);
          else batch.put(key, change.getValue().getBytes(UTF_8));
        }
        db.write(batch, new WriteOptions().sync(true));
      }
    }

    @Override
    public Map<String, String> contents() {
      var contents = new TreeMap<String, String>();
      for (var pair : db) {
        contents.put(new String(pair.getKey(), UTF_8), new String(pair.getValue(), UTF_8));
      }
      return contents;
    }

    @Override
    public void close() throws IOException {
      db.close();
    }
  }

  static Open store(String name, boolean isCheck) {
    return switch (name) {
      case "derby" -> Derby::new;
      case "h2" -> directory -> new H2(directory, false);
      case "h2-checkpoint" -> directory -> new H2(directory, true);
      case "hsqldb" -> directory -> new Hsqldb(directory, isCheck);
      case "iq80-leveldb" -> Iq80::new;
      case "mapdb" -> MapDb::new;
      case "xodus" -> Xodus::new;
      default -> throw new IllegalArgumentException("there is no store " + name);
    };
  }

  /** One call, so that a line is there or is not. */
  static void say(String line) throws IOException {
    new FileOutputStream(FileDescriptor.out).write((line + "\n").getBytes(UTF_8));
  }

  static void run(Open open, String directory) throws Exception {
    String most = System.getenv("CRASHPOINT_OPERATIONS");
    int transactions = most == null ? TRANSACTIONS : Math.min(Integer.parseInt(most), TRANSACTIONS);
    try (Store store = open.in(directory)) {
      for (int number = 1; number <= transactions; number++) {
        store.commit(transaction(number));
        say("committed " + number);
        if (number == TRANSACTIONS / 2) store.tidy();
      }
    }
  }

  /** What is wrong with a state, or null. */
  static String wrong(Open open, String directory, int acknowledged) {
    Map<String, String> contents;
    try (Store store = open.in(directory)) {
      contents = store.contents();
    } catch (Throwable thrown) {
      Throwable cause = thrown;
      while (cause.getCause() != null) cause = cause.getCause();
      String text = cause.toString().replace(directory, "{dir}").replaceAll("\\s+", " ");
      String when = acknowledged == 0 ? "nothing was acknowledged, and " : "";
      return when + "the store cannot be read: " + text.substring(0, Math.min(text.length(), 200));
    }
    return differs(contents, acknowledged);
  }

  /**
   * How the contents differ from those after the last acknowledged commit, and after the next one,
   * which was under way.
   */
  static String differs(Map<String, String> contents, int acknowledged) {
    if (contents.equals(after(acknowledged)) || contents.equals(after(acknowledged + 1))) return null;
    for (int number = 0; number <= TRANSACTIONS; number++) {
      if (!contents.equals(after(number))) continue;
      if (number < acknowledged) return "acknowledged commit " + (number + 1) + " is lost";
      return "commit " + number + " is there, and was never begun";
    }
    return "the contents are those of no commit";
  }

  static boolean look(Open open, String directory, String acks) throws IOException {
    long acknowledged;
    try (var lines = Files.lines(Path.of(acks))) {
      acknowledged = lines.filter(line -> line.startsWith("committed ")).count();
    }
    String wrong = wrong(open, directory, (int) acknowledged);
    say(wrong == null ? "ok" : "broken " + wrong);
    return wrong == null;
  }

  static void serve(Open open) throws IOException {
    var states = new BufferedReader(new InputStreamReader(System.in, UTF_8));
    for (String state; (state = states.readLine()) != null; ) {
      String[] words = state.split("\t");
      try {
        look(open, words[0], words[1]);
      } catch (IOException error) { // Of this state only: the next one may do.
        System.err.println("error: " + error);
      }
      say("end");
    }
  }

  public static void main(String[] words) throws Exception {
    // They would write logs of their own, into the directory in which this is started.
    Properties quiet = System.getProperties();
    quiet.setProperty("derby.stream.error.file", "/dev/null");
    quiet.setProperty("hsqldb.reconfig_logging", "false");
    LogManager.getLogManager().reset();
    if (words.length < 3 || !(words[1].equals("run") || words[1].equals("check"))) {
      System.err.println("usage: Stores STORE run DIR, or check DIR ACKS, or check --serve");
      System.exit(2);
    }
    Open open = store(words[0], words[1].equals("check"));
    boolean isWell = true;
    if (words[1].equals("run")) run(open, words[2]);
    else if (words[2].equals("--serve")) serve(open);
    else isWell = look(open, words[2], words[3]);
    // Threads of a store may still run.
    System.exit(isWell ? 0 : 1);
  }
}
