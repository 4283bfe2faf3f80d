// A client of redis, and a server that redis-benchmark and redis-cli can talk to.
//
//	keys call PORT     sets and gets values of many sizes, one at a time and many at once
//	keys serve PORT    PING, SET, GET, INCR and DEL, until its standard input ends
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"strconv"
	"sync"
)

func main() {
	switch words := os.Args[1:]; {
	case len(words) == 2 && words[0] == "call":
		call("127.0.0.1:" + words[1])
	case len(words) == 2 && words[0] == "serve":
		serve("127.0.0.1:" + words[1])
	default:
		panic("keys call PORT | serve PORT")
	}
}

func check(err error) {
	if err != nil {
		panic(fmt.Sprintf("keys: %v", err))
	}
}

// Commands and answers on one connection.
type link struct {
	*bufio.Reader
	*bufio.Writer
	net.Conn
}

func newLink(conn net.Conn) *link {
	return &link{bufio.NewReader(conn), bufio.NewWriter(conn), conn}
}

func (l *link) command(words ...[]byte) {
	fmt.Fprintf(l.Writer, "*%d\r\n", len(words))
	for _, word := range words {
		l.bulk(word)
	}
}

func (l *link) bulk(bytes []byte) {
	fmt.Fprintf(l.Writer, "$%d\r\n", len(bytes))
	l.Writer.Write(bytes)
	l.Writer.WriteString("\r\n")
}

func (l *link) line() (string, error) {
	line, err := l.ReadString('\n')
	if err != nil {
		return "", err
	}
	return line[:len(line)-2], nil
}

// One answer; of an array, how many follow.
func (l *link) answer() ([]byte, error) {
	line, err := l.line()
	if err != nil {
		return nil, err
	}
	if line[0] != '$' {
		return []byte(line), nil
	}
	length, err := strconv.Atoi(line[1:])
	check(err)
	if length < 0 {
		return nil, nil
	}
	value := make([]byte, length+2)
	_, err = io.ReadFull(l.Reader, value)
	return value[:length], err
}

func (l *link) expect(wanted []byte) {
	got, err := l.answer()
	check(err)
	if !bytes.Equal(got, wanted) {
		panic(fmt.Sprintf("keys: %.50q instead of %.50q", got, wanted))
	}
}

func call(address string) {
	const clients, rounds = 8, 400
	var group sync.WaitGroup
	for index := 0; index < clients; index++ {
		conn, err := net.Dial("tcp", address)
		check(err)
		group.Add(1)
		go func(index int) {
			defer group.Done()
			defer conn.Close()
			rng := rand.New(rand.NewSource(int64(index)))
			for round := 0; round < rounds; round++ {
				exchange(newLink(conn), rng, fmt.Sprintf("key-%d-%d", index, round%10))
			}
		}(index)
	}
	group.Wait()
	conn, err := net.Dial("tcp", address)
	check(err)
	pipelined(newLink(conn))
	fmt.Printf("%d values\n", clients*rounds)
}

func exchange(l *link, rng *rand.Rand, key string) {
	value := make([]byte, rng.Intn(1<<uint(rng.Intn(18))))
	rng.Read(value)
	l.command([]byte("SET"), []byte(key), value)
	check(l.Flush())
	l.expect([]byte("+OK"))
	l.command([]byte("GET"), []byte(key))
	check(l.Flush())
	l.expect(value)
}

func pipelined(l *link) {
	const depth = 500
	for round := 0; round < 20; round++ {
		for index := 0; index < depth; index++ {
			l.command([]byte("INCR"), []byte("counter"))
		}
		check(l.Flush())
		for index := 1; index <= depth; index++ {
			l.expect([]byte(fmt.Sprintf(":%d", round*depth+index)))
		}
	}
	l.command([]byte("DEL"), []byte("counter"))
	check(l.Flush())
	l.expect([]byte(":1"))
}
