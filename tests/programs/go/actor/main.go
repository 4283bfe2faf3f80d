// An actor of the differential tester (tests/src/differ) in Go: it makes its calls by package syscall, and so by the
// functions of Go's runtime that the library replaces. A call or an argument that it does not know is "unsupported", on the
// kernel as on ulsock. Neither package os nor net is asked for a descriptor: numbers are those that the kernel gives.
package main

import (
	"fmt"
	// By which the program is linked with libc.
	_ "net"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// As in tests/src/differ/wires.rs.
const (
	threads   = 3
	firstWire = 700
	perActor  = 8
)

const slots = 16

var (
	lock  sync.Mutex
	table [slots]int
	place struct {
		host   [4]byte
		port   int
		folder string
		actor  int
	}
)

// The number behind a name; one that was never open for names that mean nothing.
func number(slot int64) int {
	lock.Lock()
	defer lock.Unlock()
	if slot < 0 || slot >= slots {
		return -1
	}
	return table[slot]
}

func name(slot int64, number int) {
	lock.Lock()
	defer lock.Unlock()
	if slot >= 0 && slot < slots {
		table[slot] = number
	}
}

func main() {
	// actor INDEX HOST PORT FOLDER
	words := os.Args[2:]
	for slot := range table {
		table[slot] = -1
	}
	host := integer(words[1])
	place.actor, place.port, place.folder = int(integer(words[0])), int(integer(words[2])), words[3]
	place.host = [4]byte{byte(host >> 24), byte(host >> 16), byte(host >> 8), byte(host)}
	// A thread whose call ends must not sleep until a processor of Go's is free, or for a collection: the controller would
	// take it for asleep in the call.
	runtime.GOMAXPROCS(4 * (threads + 1))
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	var ids [threads]chan int
	for thread := range ids {
		ids[thread] = make(chan int)
		go serve(thread, ids[thread])
	}
	hello := fmt.Sprintf("hello %d", os.Getpid())
	for _, id := range ids {
		hello += fmt.Sprintf(" %d", <-id)
	}
	say(threads, hello)
	for readLine(threads) != "" {
	}
	os.Exit(0)
}

func integer(text string) int64 {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return number
}

// A thread of its own, whose state the controller sees.
func serve(thread int, id chan int) {
	runtime.LockOSThread()
	id <- syscall.Gettid()
	for {
		line := readLine(thread)
		if line == "" {
			select {}
		}
		say(thread, execute(line))
	}
}

func readLine(thread int) string {
	line := make([]byte, 1024)
	for {
		length, err := syscall.Read(firstWire+place.actor*perActor+thread, line)
		if err != syscall.EINTR {
			if length < 0 {
				length = 0
			}
			return strings.TrimSpace(string(line[:length]))
		}
	}
}

func say(thread int, text string) {
	line := fmt.Sprintf("%d %s\n", thread, text)
	if len(line) > 4000 {
		line = line[:4000]
	}
	syscall.Write(firstWire+place.actor*perActor+perActor-1, []byte(line))
}

// The answer to a step: the words that came of its call.
func execute(line string) (text string) {
	s := parse(line)
	if s == nil {
		return "unsupported"
	}
	call, known := calls[s.call]
	if !known {
		return "unsupported"
	}
	call(s)
	return strings.Join(s.words, " ")
}
