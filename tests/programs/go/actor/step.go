// A step: its arguments, and the words that come of it.
package main

import (
	"fmt"
	"strings"
	"syscall"
	"unsafe"
)

type step struct {
	call  string
	args  map[string]int64
	words []string
	kept  []unsafe.Pointer
}

var names = map[string]int64{
	"MSG_OOB": 1, "MSG_PEEK": 2, "MSG_DONTROUTE": 4, "MSG_CTRUNC": 8, "MSG_TRUNC": 0x20, "MSG_DONTWAIT": 0x40,
	"MSG_EOR": 0x80, "MSG_WAITALL": 0x100, "MSG_NOSIGNAL": 0x4000, "MSG_MORE": 0x8000, "MSG_CMSG_CLOEXEC": 0x40000000,
	"IN": 1, "PRI": 2, "OUT": 4, "ERR": 8, "HUP": 0x10, "NVAL": 0x20, "RDNORM": 0x40, "RDBAND": 0x80, "WRNORM": 0x100,
	"WRBAND": 0x200, "RDHUP": 0x2000, "EXCLUSIVE": 1 << 28, "ONESHOT": 1 << 30, "ET": 1 << 31,
	"O_NONBLOCK": 0x800, "O_APPEND": 0x400, "path": 1, "abstract": 2, "pair": 3,
}

// By name, level and number; the others are not supported.
var options = map[string][2]int{
	"SO_TYPE": {1, 3}, "SO_ERROR": {1, 4}, "SO_BROADCAST": {1, 6}, "SO_KEEPALIVE": {1, 9}, "SO_OOBINLINE": {1, 10},
	"SO_REUSEADDR": {1, 2}, "SO_REUSEPORT": {1, 15}, "SO_PRIORITY": {1, 12}, "SO_RCVLOWAT": {1, 18}, "SO_RCVBUF": {1, 8},
	"SO_SNDBUF": {1, 7}, "SO_ACCEPTCONN": {1, 30}, "SO_DOMAIN": {1, 39}, "SO_PROTOCOL": {1, 38}, "TCP_NODELAY": {6, 1},
	"TCP_CORK": {6, 3}, "TCP_KEEPIDLE": {6, 4}, "TCP_USER_TIMEOUT": {6, 18}, "NO_SUCH_OPTION": {1, 4711},
}

// Arguments that are not supported, whatever the call is.
var odd = []string{"rights", "credentials", "whatfd", "room", "claim", "control", "unspec", "packets", "bound"}

// nil if something of it is not supported. An option becomes its level and number.
func parse(line string) *step {
	words := strings.Fields(line)
	s := &step{call: words[1], args: map[string]int64{}}
	for _, word := range words[2:] {
		key, value, _ := strings.Cut(word, "=")
		if key == "option" {
			option, known := options[value]
			if !known {
				return nil
			}
			s.args["level"], s.args["name"] = int64(option[0]), int64(option[1])
			continue
		}
		sum, known := valueOf(value)
		if !known {
			return nil
		}
		s.args[key] = sum
	}
	for _, key := range odd {
		if s.has(key) {
			return nil
		}
	}
	return s
}

func valueOf(text string) (int64, bool) {
	sum := int64(0)
	if _, err := fmt.Sscanf(text, "%d", &sum); err == nil {
		return sum, true
	}
	for _, name := range strings.Split(text, "|") {
		bit, known := names[name]
		if !known {
			return 0, false
		}
		sum |= bit
	}
	return sum, true
}

func (s *step) get(key string) int64 {
	return s.args[key]
}

func (s *step) has(key string) bool {
	_, there := s.args[key]
	return there
}

func (s *step) fd() uintptr {
	return uintptr(number(s.get("fd")))
}

func (s *step) word(format string, values ...any) {
	s.words = append(s.words, fmt.Sprintf(format, values...))
}

// Makes a system call of up to six arguments, and adds its result or error.
func (s *step) make(call uintptr, args ...uintptr) int64 {
	result, failure := raw(call, args...)
	if failure != 0 {
		s.word("%s", errorName(failure))
		return -1
	}
	s.word("%d", result)
	return result
}

func raw(call uintptr, args ...uintptr) (int64, syscall.Errno) {
	var six [6]uintptr
	copy(six[:], args)
	result, _, failure := syscall.Syscall6(call, six[0], six[1], six[2], six[3], six[4], six[5])
	return int64(result), failure
}

// The names that the controller looks for, and numbers for the rest.
func errorName(failure syscall.Errno) string {
	switch failure {
	case syscall.EAGAIN:
		return "EAGAIN"
	case syscall.EPIPE:
		return "EPIPE"
	case syscall.ECONNRESET:
		return "ECONNRESET"
	case syscall.EBADF:
		return "EBADF"
	default:
		return fmt.Sprintf("errno%d", int(failure))
	}
}

// The address of what a call gets. The step keeps it, so that it is not on a stack, which moves, and lives for the call.
func (s *step) at(kept unsafe.Pointer) uintptr {
	s.kept = append(s.kept, kept)
	return uintptr(kept)
}

func (s *step) base(bytes []byte) uintptr {
	if len(bytes) == 0 {
		return 0
	}
	return s.at(unsafe.Pointer(&bytes[0]))
}
