// Socket options, addresses, listeners, and the calls that a program makes itself by SyscallConn.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// What getsockopt tells, by the connection's own number.
func option(raw syscall.RawConn, level, name int) int {
	var value int
	var failure error
	check(raw.Control(func(fd uintptr) {
		value, failure = syscall.GetsockoptInt(int(fd), level, name)
	}))
	check(failure)
	return value
}

func callOptions(s *session) {
	raw, err := s.SyscallConn()
	check(err)
	fmt.Print(" no delay ", option(raw, syscall.IPPROTO_TCP, syscall.TCP_NODELAY))
	check(s.SetNoDelay(false))
	fmt.Print(" ", option(raw, syscall.IPPROTO_TCP, syscall.TCP_NODELAY))
	check(s.SetKeepAlive(true))
	check(s.SetKeepAlivePeriod(7 * time.Second))
	fmt.Print(", keep alive ", option(raw, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE))
	fmt.Print(" ", option(raw, syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL))
	check(s.SetReadBuffer(100_000))
	check(s.SetWriteBuffer(100_000))
	fmt.Print(", buffers ", option(raw, syscall.SOL_SOCKET, syscall.SO_RCVBUF))
	fmt.Print(" ", option(raw, syscall.SOL_SOCKET, syscall.SO_SNDBUF))
	fmt.Print(", kind ", option(raw, syscall.SOL_SOCKET, syscall.SO_TYPE))
	fmt.Print(", error ", option(raw, syscall.SOL_SOCKET, syscall.SO_ERROR))
	for trip := 0; trip < 100; trip++ {
		s.roundTrip(10)
	}
	far := s.RemoteAddr().(*net.TCPAddr)
	fmt.Print(", right port ", far.Port == s.port, ", address ", far.IP)
	fmt.Print(", own ", s.LocalAddr().(*net.TCPAddr).IP)
}

// Peeks and receives with calls of its own, which wait in Go's epoll set.
func callRaw(s *session) {
	raw, err := s.SyscallConn()
	check(err)
	for trip := 0; trip < 200; trip++ {
		sent := bytesOf(s.seed+int64(trip), 500)
		sendRaw(raw, sent)
		received := receiveRaw(raw, len(sent), syscall.MSG_PEEK)
		if string(received) != string(sent[:len(received)]) {
			fail("other bytes by a peek")
		}
		for got := 0; got < len(sent); {
			piece := receiveRaw(raw, len(sent)-got, 0)
			if string(piece) != string(sent[got:got+len(piece)]) {
				fail("other bytes after a peek")
			}
			got += len(piece)
		}
	}
	fmt.Printf(" %d peeks", 200)
}

func sendRaw(raw syscall.RawConn, bytes []byte) {
	for len(bytes) > 0 {
		var written int
		var failure error
		check(raw.Write(func(fd uintptr) bool {
			written, failure = syscall.Write(int(fd), bytes)
			return !errors.Is(failure, syscall.EAGAIN)
		}))
		check(failure)
		bytes = bytes[written:]
	}
}

func receiveRaw(raw syscall.RawConn, length, flags int) []byte {
	buffer := make([]byte, length)
	var received int
	var failure error
	check(raw.Read(func(fd uintptr) bool {
		received, _, failure = syscall.Recvfrom(int(fd), buffer, flags|syscall.MSG_DONTWAIT)
		return !errors.Is(failure, syscall.EAGAIN)
	}))
	check(failure)
	if received == 0 {
		fail("an early end")
	}
	return buffer[:received]
}

// Listeners with deadlines, of both families, with options set before bind, and one made of a file.
func callListeners(s *session) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) {
			check(syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
		})
	}}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		listener, err := config.Listen(context.Background(), "tcp", address)
		check(err)
		tcp := listener.(*net.TCPListener)
		check(tcp.SetDeadline(time.Now().Add(5 * time.Millisecond)))
		_, err = tcp.Accept()
		fmt.Printf(" %s accept %s,", address, kindOf(err))
		check(tcp.SetDeadline(time.Time{}))
		file, err := tcp.File()
		check(err)
		check(tcp.Close())
		meet(listenerOf(file), s.seed)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := new(net.Dialer).DialContext(ctx, "tcp", local(s.port))
	fmt.Printf(" cancelled %v", errors.Is(err, context.Canceled) || err != nil)
}

func listenerOf(file *os.File) net.Listener {
	listener, err := net.FileListener(file)
	check(err)
	check(file.Close())
	return listener
}

// A connection of this process with itself.
func meet(listener net.Listener, seed int64) {
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	check(err)
	accepted := make(chan *session)
	go func() {
		conn, err := listener.Accept()
		check(err)
		accepted <- newSession(conn.(*net.TCPConn), 0, 0, seed)
	}()
	host := "localhost"
	if listener.Addr().(*net.TCPAddr).IP.To4() == nil {
		host = "::1"
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(host, port))
	check(err)
	near, far := newSession(conn.(*net.TCPConn), 0, 0, seed), <-accepted
	go func() {
		serveEcho(far)
		check(far.CloseWrite())
	}()
	for trip := 0; trip < 50; trip++ {
		near.roundTrip(1000)
	}
	check(near.CloseWrite())
	ends(near)
	near.Close()
	far.Close()
}
