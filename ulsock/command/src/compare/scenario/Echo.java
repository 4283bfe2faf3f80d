/* Echo server PORT
 * Echo client HOST PORT CONNECTIONS WARM_UP SECONDS
 * Round trips of 64 B by NIO, one thread and one selector at each end, each connection with one message under
 * way. The client prints one line of JSON. It measures after the warm-up of so many seconds, and of so many
 * messages that the virtual machine has compiled what is used often. Its first connection asks the server how
 * much CPU time it has used so far, so that the start of neither end counts. */
import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.net.SocketException;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;

final class Echo {
    static final int SIZE = 64;
    static final long WARM_MESSAGES = 30_000;

    public static void main(String[] words) throws IOException {
        if (words.length == 2 && words[0].equals("server")) {
            serve(Integer.parseInt(words[1]));
        } else if (words.length == 6 && words[0].equals("client")) {
            var server = new InetSocketAddress(words[1], Integer.parseInt(words[2]));
            ask(server, Integer.parseInt(words[3]), Double.parseDouble(words[4]), Double.parseDouble(words[5]));
        } else {
            throw new IllegalArgumentException("server PORT | client HOST PORT CONNECTIONS WARM_UP SECONDS");
        }
    }

    /* Nanoseconds of this process so far. */
    static long cpuTime() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    /* Ends when all clients have gone. */
    static void serve(int port) throws IOException {
        cpuTime();
        var selector = Selector.open();
        var listener = ServerSocketChannel.open();
        listener.bind(new InetSocketAddress("127.0.0.1", port), 1024);
        listener.configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        var buffer = ByteBuffer.allocateDirect(SIZE);
        int accepted = 0;
        int open = 0;
        while (accepted == 0 || open > 0) {
            selector.select();
            var keys = selector.selectedKeys().iterator();
            while (keys.hasNext()) {
                var key = keys.next();
                keys.remove();
                if (key.isAcceptable()) {
                    /* The first one asks for the CPU time. */
                    var kind = accepted++ == 0 ? Boolean.TRUE : Boolean.FALSE;
                    begin(listener.accept(), selector).attach(kind);
                    open++;
                } else if (!answer((SocketChannel) key.channel(), buffer, key.attachment() == Boolean.TRUE)) {
                    key.channel().close();
                    open--;
                }
            }
        }
    }

    static SelectionKey begin(SocketChannel channel, Selector selector) throws IOException {
        channel.configureBlocking(false);
        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
        return channel.register(selector, SelectionKey.OP_READ);
    }

    /* false: the client has gone. */
    static boolean answer(SocketChannel channel, ByteBuffer buffer, boolean asksForTime) throws IOException {
        try {
            if (channel.read(buffer.clear()) < 0) {
                return false;
            }
        } catch (SocketException reset) {
            /* It has not waited for its last answers. */
            return false;
        }
        if (asksForTime) {
            buffer.clear().putLong(cpuTime());
        }
        send(channel, buffer.flip());
        return true;
    }

    static void send(SocketChannel channel, ByteBuffer buffer) throws IOException {
        /* 64 B for each connection always find room. */
        int length = buffer.remaining();
        if (channel.write(buffer) != length) {
            throw new IOException("no room for a small message");
        }
    }

    static void ask(InetSocketAddress server, int connections, double warmUp, double seconds) throws IOException {
        var control = SocketChannel.open(server);
        serverTime(control);
        var selector = Selector.open();
        var message = ByteBuffer.allocateDirect(SIZE);
        for (int i = 0; i < connections; i++) {
            var channel = SocketChannel.open(server);
            begin(channel, selector).attach(ByteBuffer.allocateDirect(SIZE));
            send(channel, message.clear());
        }
        exchange(selector, message, warmUp, WARM_MESSAGES);
        long cpu = cpuTime() + serverTime(control);
        long start = System.nanoTime();
        long messages = exchange(selector, message, seconds, 1);
        double took = (System.nanoTime() - start) / 1e9;
        cpu = cpuTime() + serverTime(control) - cpu;
        System.out.printf("{\"messages\":%d,\"seconds\":%.6f,\"cpu_seconds\":%.6f}%n", messages, took, cpu / 1e9);
    }

    static long serverTime(SocketChannel control) throws IOException {
        var buffer = ByteBuffer.allocateDirect(Long.BYTES);
        control.write(buffer.limit(1));
        return receive(control, buffer.clear()).getLong();
    }

    /* Fills the buffer. */
    static ByteBuffer receive(ReadableByteChannel channel, ByteBuffer buffer) throws IOException {
        while (buffer.hasRemaining()) {
            if (channel.read(buffer) < 0) {
                throw new IOException("the server has gone");
            }
        }
        return buffer.flip();
    }

    /* For so long, and so many round trips, at least. How many there were. */
    static long exchange(Selector selector, ByteBuffer message, double seconds, long least) throws IOException {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        long done = 0;
        while (done < least || System.nanoTime() < end) {
            selector.select();
            var keys = selector.selectedKeys().iterator();
            while (keys.hasNext()) {
                var key = keys.next();
                keys.remove();
                var channel = (SocketChannel) key.channel();
                var answer = (ByteBuffer) key.attachment();
                if (channel.read(answer) < 0) {
                    throw new IOException("the server has gone");
                }
                if (!answer.hasRemaining()) {
                    answer.clear();
                    send(channel, message.clear());
                    done++;
                }
            }
        }
        return done;
    }
}
