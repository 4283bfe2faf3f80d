// Two programs of Go that talk by TCP, and say what came of it in a text that must not depend on the carrier.
//
//	talk serve PORT                     serves subjects until its standard input ends
//	talk call PORT SEED [SUBJECT...]    asks for subjects, for all by default
//	talk forever PORT CONNECTIONS       makes round trips until the server has gone
//	talk rest PORT CONNECTIONS          makes some round trips, and waits until its standard input ends
//	talk child                          asks on the connection that it inherits as descriptor 3
//	talk pour                           writes to the Unix socket that it inherits as descriptor 3
//
// Nothing but the standard library of Go 1.19 is used: every toolchain of the matrix builds it.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"strconv"
)

// One thing that the two do together. The client says its number, and with which seed.
type subject struct {
	name  string
	serve func(*session)
	call  func(*session)
}

// The order is that of the numbers on the wire.
var subjects []subject

func init() {
	subjects = []subject{
		{"ping", servePing, callPing},
		{"echo", serveEcho, callEcho},
		{"many", serveEcho, callMany},
		{"down", serveDown, callDown},
		{"half-close", serveHalfClose, callHalfClose},
		{"relay", serveRelay, callRelay},
		{"file", serveFile, callFile},
		{"vectors", serveEcho, callVectors},
		{"unix", serveUnix, callUnix},
		{"deadlines", serveEcho, callDeadlines},
		{"closed", serveSilent, callClosed},
		{"reset", serveReset, callReset},
		{"refused", serveSilent, callRefused},
		{"options", serveEcho, callOptions},
		{"raw", serveEcho, callRaw},
		{"handed", serveHanded, callHanded},
		{"poured", serveEcho, callPoured},
		{"commands", serveEcho, callCommands},
		{"signals", serveEcho, callSignals},
		{"stacks", serveEcho, callStacks},
		{"threads", serveEcho, callThreads},
		{"datagrams", serveEcho, callDatagrams},
		{"listeners", serveEcho, callListeners},
		{"faults", serveEcho, callFaults},
		{"relayed", serveRelayed, callRelayed},
	}
}

// One connection of a subject, at one of its ends.
type session struct {
	*net.TCPConn
	port int
	seed int64
	rng  *rand.Rand
	// Of the subject, for further connections.
	number int
}

func newSession(conn *net.TCPConn, port, number int, seed int64) *session {
	return &session{conn, port, seed, rand.New(rand.NewSource(seed)), number}
}

// Another connection with the same subject, and a seed of its own.
func (s *session) again(seed int64) *session {
	return open(s.port, s.number, seed)
}

func open(port, number int, seed int64) *session {
	conn, err := net.Dial("tcp", local(port))
	check(err)
	session := newSession(conn.(*net.TCPConn), port, number, seed)
	var head [9]byte
	head[0] = byte(number)
	binary.LittleEndian.PutUint64(head[1:], uint64(seed))
	session.send(head[:])
	return session
}

func serve(port int) {
	listener, err := net.Listen("tcp", local(port))
	check(err)
	go func() {
		for {
			conn, err := listener.Accept()
			check(err)
			go answer(conn.(*net.TCPConn), port)
		}
	}()
	_, err = io.Copy(io.Discard, os.Stdin)
	check(err)
}

func answer(conn *net.TCPConn, port int) {
	var head [9]byte
	if _, err := io.ReadFull(conn, head[:]); err == io.EOF {
		conn.Close()
		return
	} else {
		check(err)
	}
	number, seed := int(head[0]), int64(binary.LittleEndian.Uint64(head[1:]))
	if number >= len(subjects) {
		fail("subject %d", number)
	}
	subjects[number].serve(newSession(conn, port, number, seed))
	conn.Close()
}

func call(port int, seed int64, wanted map[string]bool) {
	for number, subject := range subjects {
		if len(wanted) > 0 && !wanted[subject.name] {
			continue
		}
		fmt.Printf("%s:", subject.name)
		session := open(port, number, seed)
		subject.call(session)
		session.Close()
		fmt.Println()
	}
}

func main() {
	words := os.Args[1:]
	switch {
	case len(words) == 2 && words[0] == "serve":
		serve(number(words[1]))
	case len(words) >= 3 && words[0] == "call":
		wanted := map[string]bool{}
		for _, name := range words[3:] {
			wanted[name] = true
		}
		call(number(words[1]), int64(number(words[2])), wanted)
	case len(words) == 3 && words[0] == "forever":
		forever(number(words[1]), words[2])
	case len(words) == 3 && words[0] == "rest":
		rest(number(words[1]), number(words[2]))
	case len(words) == 1 && words[0] == "child":
		child()
	case len(words) == 1 && words[0] == "pour":
		pour()
	default:
		fail("talk serve PORT | call PORT SEED [SUBJECT...] | forever PORT CONNECTIONS | rest PORT CONNECTIONS | child | pour")
	}
}

func number(word string) int {
	number, err := strconv.Atoi(word)
	check(err)
	return number
}

func local(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func fail(format string, values ...any) {
	panic(fmt.Sprintf("talk: "+format, values...))
}
