// The server: a goroutine for each connection, one map for all.
package main

import (
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
)

var (
	lock   sync.Mutex
	values = map[string][]byte{}
)

func serve(address string) {
	listener, err := net.Listen("tcp", address)
	check(err)
	go func() {
		for {
			conn, err := listener.Accept()
			check(err)
			go answer(newLink(conn))
		}
	}()
	_, err = io.Copy(io.Discard, os.Stdin)
	check(err)
}

func answer(l *link) {
	defer l.Close()
	for {
		words := l.read()
		if words == nil {
			return
		}
		l.do(words)
		// Answers to commands that came together go together.
		if l.Reader.Buffered() == 0 && l.Flush() != nil {
			return
		}
	}
}

// The words of one command; none when the client has gone.
func (l *link) read() [][]byte {
	line, err := l.line()
	if err != nil {
		return nil
	}
	count, err := strconv.Atoi(line[1:])
	check(err)
	words := make([][]byte, count)
	for index := range words {
		if words[index], err = l.answer(); err != nil {
			return nil
		}
	}
	return words
}

func (l *link) do(words [][]byte) {
	lock.Lock()
	defer lock.Unlock()
	switch strings.ToUpper(string(words[0])) {
	case "PING":
		l.Writer.WriteString("+PONG\r\n")
	case "SET":
		values[string(words[1])] = words[2]
		l.Writer.WriteString("+OK\r\n")
	case "GET":
		if value, found := values[string(words[1])]; found {
			l.bulk(value)
		} else {
			l.Writer.WriteString("$-1\r\n")
		}
	case "INCR":
		number, _ := strconv.Atoi(string(values[string(words[1])]))
		values[string(words[1])] = []byte(strconv.Itoa(number + 1))
		l.Writer.WriteString(":" + strconv.Itoa(number+1) + "\r\n")
	case "DEL":
		delete(values, string(words[1]))
		l.Writer.WriteString(":1\r\n")
	default:
		l.Writer.WriteString("-ERR unknown command\r\n")
	}
}
