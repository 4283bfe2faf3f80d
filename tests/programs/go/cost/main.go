// cost COUNT
// Nanoseconds of calls that are none of ulsock's: by their number (getuid, raw and by way of Go's scheduler), and by their
// descriptor (a byte to /dev/null). The best of several rounds of so many calls, a line each.
package main

import (
	"fmt"
	// By which the program is linked with libc.
	_ "net"
	"os"
	"strconv"
	"syscall"
	"time"
)

const rounds = 15

func main() {
	count, err := strconv.Atoi(os.Args[1])
	check(err)
	fd, err := syscall.Open("/dev/null", syscall.O_WRONLY, 0)
	check(err)
	one := []byte{1}
	best("getuid, raw", count, func() {
		syscall.RawSyscall(syscall.SYS_GETUID, 0, 0, 0)
	})
	best("getuid", count, func() {
		syscall.Syscall(syscall.SYS_GETUID, 0, 0, 0)
	})
	best("write to /dev/null", count, func() {
		_, err := syscall.Write(fd, one)
		check(err)
	})
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func best(name string, count int, call func()) {
	least := time.Hour
	for round := 0; round < rounds; round++ {
		start := time.Now()
		for index := 0; index < count; index++ {
			call()
		}
		if took := time.Since(start); took < least {
			least = took
		}
	}
	fmt.Printf("%s: %.1f\n", name, float64(least.Nanoseconds())/float64(count))
}
