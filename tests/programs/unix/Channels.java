// Java's channels on a Unix socket: "serve PATH" echoes what its clients send until one of them asks it to end, with a selector
// for all; "call PATH" has a blocking channel and checks every byte.

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.zip.CRC32;

public class Channels {
    static final int[] SIZES = {1, 10, 1000, 20_000, 300_000};
    static final int ROUNDS = 150;

    public static void main(String[] words) throws IOException {
        UnixDomainSocketAddress address = UnixDomainSocketAddress.of(words[1]);
        if (words[0].equals("serve")) {
            serve(address);
        } else {
            call(address);
        }
    }

    static void serve(UnixDomainSocketAddress address) throws IOException {
        Selector selector = Selector.open();
        ServerSocketChannel ear = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        ear.bind(address);
        ear.configureBlocking(false);
        ear.register(selector, SelectionKey.OP_ACCEPT);
        for (int ended = 0; ended < 4; ) {
            selector.select();
            for (SelectionKey key : selector.selectedKeys()) {
                if (key.isAcceptable()) {
                    SocketChannel accepted = ear.accept();
                    accepted.configureBlocking(false);
                    accepted.register(selector, SelectionKey.OP_READ, ByteBuffer.allocate(65536));
                } else if (!echo((SocketChannel) key.channel(), key)) {
                    key.channel().close();
                    ended++;
                }
            }
            selector.selectedKeys().clear();
        }
        ear.close();
    }

    // Reads only when all that was read has been written.
    static boolean echo(SocketChannel channel, SelectionKey key) throws IOException {
        ByteBuffer buffer = (ByteBuffer) key.attachment();
        if (key.isReadable()) {
            buffer.clear();
            if (channel.read(buffer) < 0) {
                return false;
            }
            buffer.flip();
        }
        channel.write(buffer);
        key.interestOps(buffer.hasRemaining() ? SelectionKey.OP_WRITE : SelectionKey.OP_READ);
        return true;
    }

    static void call(UnixDomainSocketAddress address) throws IOException {
        CRC32 sum = new CRC32();
        for (int connection = 0; connection < 4; connection++) {
            try (SocketChannel channel = SocketChannel.open(address)) {
                for (int round = 0; round < ROUNDS; round++) {
                    byte[] sent = new byte[SIZES[round % SIZES.length]];
                    java.util.Arrays.fill(sent, (byte) (round + connection));
                    Thread writer = new Thread(() -> write(channel, sent));
                    writer.start();
                    ByteBuffer back = ByteBuffer.allocate(sent.length);
                    while (back.hasRemaining() && channel.read(back) >= 0) {
                    }
                    if (!java.util.Arrays.equals(sent, back.array())) {
                        throw new IOException("other bytes in round " + round);
                    }
                    sum.update(back.array());
                    join(writer);
                }
            }
        }
        System.out.println(sum.getValue());
    }

    static void write(SocketChannel channel, byte[] bytes) {
        try {
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            while (buffer.hasRemaining()) {
                channel.write(buffer);
            }
        } catch (IOException error) {
            throw new RuntimeException(error);
        }
    }

    static void join(Thread thread) throws IOException {
        try {
            thread.join();
        } catch (InterruptedException error) {
            throw new IOException(error);
        }
    }
}
