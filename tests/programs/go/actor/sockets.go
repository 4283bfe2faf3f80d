// The calls that make, name, set and end sockets; and how the two ends of a link come about.
package main

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

func addSockets() {
	plain := func(call uintptr, keys ...string) func(*step) {
		return func(s *step) {
			args := []uintptr{s.fd()}
			for _, key := range keys {
				args = append(args, uintptr(s.get(key)))
			}
			s.make(call, args...)
		}
	}
	calls["listen"] = plain(syscall.SYS_LISTEN, "backlog")
	calls["shutdown"] = plain(syscall.SYS_SHUTDOWN, "how")
	calls["close"] = plain(syscall.SYS_CLOSE)
	calls["socket"] = func(s *step) { s.named(s.socket()) }
	calls["accept"] = func(s *step) { s.named(s.make(syscall.SYS_ACCEPT, s.fd())) }
	calls["accept4"] = func(s *step) {
		s.named(s.make(syscall.SYS_ACCEPT4, s.fd(), 0, 0, nonblock(s)))
	}
	calls["dup"] = func(s *step) { s.named(s.make(syscall.SYS_DUP, s.fd())) }
	calls["dup2"] = func(s *step) { s.named(s.make(syscall.SYS_DUP2, s.fd(), s.target())) }
	calls["dup3"] = func(s *step) {
		s.named(s.make(syscall.SYS_DUP3, s.fd(), s.target(), uintptr(s.get("cloexec")*syscall.O_CLOEXEC)))
	}
	calls["dupfd"] = func(s *step) {
		s.named(s.make(syscall.SYS_FCNTL, s.fd(), syscall.F_DUPFD, uintptr(s.get("least"))))
	}
	calls["getfl"] = func(s *step) { s.make(syscall.SYS_FCNTL, s.fd(), syscall.F_GETFL) }
	calls["setfl"] = func(s *step) { s.make(syscall.SYS_FCNTL, s.fd(), syscall.F_SETFL, uintptr(s.get("fl"))) }
	calls["FIONREAD"] = func(s *step) { s.count() }
	calls["bind"] = func(s *step) { s.toAddress(syscall.SYS_BIND) }
	calls["connect"] = func(s *step) { s.toAddress(syscall.SYS_CONNECT) }
	calls["setsockopt"] = setOption
	calls["getsockopt"] = getOption
	calls["serve"] = serveLink
	calls["dial"] = dial
	calls["accepted"] = accepted
	calls["socketpair"] = pair
}

func (s *step) named(result int64) {
	if result >= 0 {
		name(s.get("to"), int(result))
	}
}

func (s *step) target() uintptr {
	if s.has("number") {
		return uintptr(s.get("number"))
	}
	return uintptr(number(s.get("onto")))
}

func nonblock(s *step) uintptr {
	if s.get("nonblock") != 0 {
		return syscall.SOCK_NONBLOCK
	}
	return 0
}

func (s *step) socket() int64 {
	return s.make(syscall.SYS_SOCKET, s.family(), syscall.SOCK_STREAM|nonblock(s), 0)
}

func (s *step) family() uintptr {
	switch {
	case s.get("over") != 0:
		return syscall.AF_UNIX
	case s.get("v6") != 0:
		return syscall.AF_INET6
	default:
		return syscall.AF_INET
	}
}

// The bytes of a sockaddr: a port at this run's address, or a Unix socket's name.
func (s *step) address(port int64) []byte {
	switch s.family() {
	case syscall.AF_UNIX:
		bytes := []byte{syscall.AF_UNIX, 0}
		if s.get("over") == names["path"] {
			return append(append(bytes, path(port)...), 0)
		}
		return append(append(bytes, 0), fmt.Sprintf("differ-%x-%d", place.host, port)...)
	case syscall.AF_INET6:
		bytes := make([]byte, 28)
		bytes[0], bytes[2], bytes[3], bytes[23] = syscall.AF_INET6, byte(port>>8), byte(port), 1
		return bytes
	default:
		bytes := make([]byte, 16)
		bytes[0], bytes[2], bytes[3] = syscall.AF_INET, byte(port>>8), byte(port)
		copy(bytes[4:], place.host[:])
		return bytes
	}
}

func path(number int64) string {
	return fmt.Sprintf("%s/s%d", place.folder, number)
}

func (s *step) toAddress(call uintptr) {
	port := s.get("port")
	if s.get("over") == 0 {
		port += int64(place.port)
	}
	address := s.address(port)
	s.make(call, s.fd(), s.base(address), uintptr(len(address)))
}

func (s *step) count() {
	value := int32(-1)
	s.make(syscall.SYS_IOCTL, s.fd(), 0x541B, s.at(unsafe.Pointer(&value)))
	s.word("%s", shown(value))
}

// Counts above this depend on window sizes.
func shown(count int32) string {
	if count > 16000 {
		return "many"
	}
	return fmt.Sprint(count)
}

func setOption(s *step) {
	value := int32(s.get("value"))
	s.make(syscall.SYS_SETSOCKOPT, s.fd(), uintptr(s.get("level")), uintptr(s.get("name")), s.at(unsafe.Pointer(&value)), 4)
}

func getOption(s *step) {
	value, length := int32(-1), uint32(4)
	s.make(syscall.SYS_GETSOCKOPT, s.fd(), uintptr(s.get("level")), uintptr(s.get("name")), s.at(unsafe.Pointer(&value)), s.at(unsafe.Pointer(&length)))
	s.word("value=%d length=%d", value, length)
}

func must(what string, result int64, failure syscall.Errno) int {
	if failure != 0 {
		panic(what + ": " + failure.Error())
	}
	return int(result)
}

func serveLink(s *step) {
	port := s.get("port")
	if s.get("over") == names["path"] {
		os.Remove(path(port))
	}
	result, failure := raw(syscall.SYS_SOCKET, s.family(), syscall.SOCK_STREAM, 0)
	fd := must("socket", result, failure)
	address := s.address(port)
	result, failure = raw(syscall.SYS_BIND, uintptr(fd), s.base(address), uintptr(len(address)))
	must("bind", result, failure)
	must("listen", 0, errno(syscall.Listen(fd, 8)))
	if s.get("over") == 0 {
		var bound [128]byte
		length := uint32(len(bound))
		result, failure = raw(syscall.SYS_GETSOCKNAME, uintptr(fd), s.at(unsafe.Pointer(&bound)), s.at(unsafe.Pointer(&length)))
		must("getsockname", result, failure)
		port = int64(bound[2])<<8 | int64(bound[3])
	}
	name(s.get("to"), fd)
	s.word("~port=%d", port)
}

func errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	return err.(syscall.Errno)
}

func dial(s *step) {
	result, failure := raw(syscall.SYS_SOCKET, s.family(), syscall.SOCK_STREAM, 0)
	fd := must("socket", result, failure)
	name(s.get("to"), fd)
	if s.has("early") {
		event := packed(uint32(s.get("events")), s.get("data"))
		s.make(syscall.SYS_EPOLL_CTL, uintptr(number(s.get("early"))), 1, uintptr(fd), s.base(event))
	}
	if s.has("dup") {
		result, failure := raw(syscall.SYS_DUP, uintptr(fd))
		name(s.get("dup"), must("dup", result, failure))
	}
	address := s.address(s.get("port"))
	result, failure = raw(syscall.SYS_CONNECT, uintptr(fd), s.base(address), uintptr(len(address)))
	must("connect", result, failure)
	s.atOnce(fd)
	s.word("%d", fd)
}

func (s *step) atOnce(fd int) {
	if s.get("over") == 0 {
		must("setsockopt", 0, errno(syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)))
	}
}

func accepted(s *step) {
	result, failure := raw(syscall.SYS_ACCEPT, s.fd())
	fd := must("accept", result, failure)
	raw(syscall.SYS_CLOSE, s.fd())
	name(s.get("fd"), -1)
	s.atOnce(fd)
	name(s.get("to"), fd)
	s.word("%d", fd)
}

func pair(s *step) {
	var ends [2]int32
	domain := uintptr(syscall.AF_UNIX)
	if s.get("over") != names["pair"] {
		domain = syscall.AF_INET
	}
	made := s.make(syscall.SYS_SOCKETPAIR, domain, syscall.SOCK_STREAM|nonblock(s), 0, s.at(unsafe.Pointer(&ends)))
	if made >= 0 {
		name(s.get("to"), int(ends[0]))
		name(s.get("other"), int(ends[1]))
		s.word("%d %d", ends[0], ends[1])
	}
}
