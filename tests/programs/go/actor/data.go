// The calls that move bytes.
package main

import (
	"syscall"
	"unsafe"
)

// What receive buffers hold before.
const blank = 0xEE

var calls map[string]func(*step)

func init() {
	calls = map[string]func(*step){
		"send": send, "sendto": send, "write": send, "writev": sendVector, "sendmsg": sendVector,
		"recv": receive, "recvfrom": receive, "read": receive, "readv": receiveVector, "recvmsg": receiveVector,
	}
	addSockets()
	addReadiness()
	addLong()
}

// The bytes that a step sends: they depend on its arguments alone.
func (s *step) content() []byte {
	bytes := make([]byte, max0(s.get("len")))
	seed := uint32(s.get("seed")) * 0x9E3779B1 >> 13
	for index := range bytes {
		bytes[index] = byte(seed + uint32(index)*31)
	}
	return bytes
}

func max0(value int64) int64 {
	if value < 0 {
		return 0
	}
	return value
}

func (s *step) blank() []byte {
	bytes := make([]byte, max0(s.get("len")))
	for index := range bytes {
		bytes[index] = blank
	}
	return bytes
}

func send(s *step) {
	bytes := s.content()
	base, length := s.base(bytes), uintptr(len(bytes))
	if s.call == "write" {
		s.make(syscall.SYS_WRITE, s.fd(), base, length)
	} else {
		s.make(syscall.SYS_SENDTO, s.fd(), base, length, uintptr(s.get("flags")), 0, 0)
	}
}

func receive(s *step) {
	bytes := s.blank()
	base, length := s.base(bytes), uintptr(len(bytes))
	var result int64
	if s.call == "read" {
		result = s.make(syscall.SYS_READ, s.fd(), base, length)
	} else {
		result = s.make(syscall.SYS_RECVFROM, s.fd(), base, length, uintptr(s.get("flags")), 0, 0)
	}
	s.received(bytes, result)
}

// Adds what was received, and whether bytes behind it changed.
func (s *step) received(bytes []byte, result int64) {
	if result < 0 {
		return
	}
	if result > int64(len(bytes)) {
		result = int64(len(bytes))
	}
	s.sum(bytes[:result])
	for _, byte := range bytes[result:] {
		if byte != blank {
			s.word("beyond")
			return
		}
	}
}

func (s *step) sum(bytes []byte) {
	sum := uint32(0x811c9dc5)
	for _, byte := range bytes {
		sum = (sum ^ uint32(byte)) * 0x01000193
	}
	s.word("bytes=%d:%08x", len(bytes), sum)
}

// The bytes in pieces, of which some are empty.
func vector(bytes []byte, shape int64) []syscall.Iovec {
	half := len(bytes) / 2
	var lengths []int
	switch shape {
	case 2:
		lengths = []int{0, len(bytes), 0}
	case 3:
		lengths = []int{half, 0, len(bytes) - half}
	case 4:
		for index := 0; index < 7; index++ {
			lengths = append(lengths, len(bytes)/7)
		}
	default:
		lengths = []int{len(bytes)}
	}
	var pieces []syscall.Iovec
	at := 0
	for _, length := range lengths {
		piece := syscall.Iovec{Len: uint64(length)}
		if length > 0 {
			piece.Base = &bytes[at]
		}
		pieces = append(pieces, piece)
		at += length
	}
	return pieces
}

func sendVector(s *step) {
	bytes := s.content()
	pieces := vector(bytes, s.get("shape"))
	message := syscall.Msghdr{Iov: &pieces[0], Iovlen: uint64(len(pieces))}
	if s.call == "writev" {
		s.make(syscall.SYS_WRITEV, s.fd(), s.at(unsafe.Pointer(&pieces[0])), uintptr(len(pieces)))
	} else {
		s.make(syscall.SYS_SENDMSG, s.fd(), s.at(unsafe.Pointer(&message)), uintptr(s.get("flags")))
	}
}

func receiveVector(s *step) {
	bytes := s.blank()
	pieces := vector(bytes, s.get("shape"))
	message := syscall.Msghdr{Iov: &pieces[0], Iovlen: uint64(len(pieces))}
	var result int64
	if s.call == "readv" {
		result = s.make(syscall.SYS_READV, s.fd(), s.at(unsafe.Pointer(&pieces[0])), uintptr(len(pieces)))
	} else {
		result = s.make(syscall.SYS_RECVMSG, s.fd(), s.at(unsafe.Pointer(&message)), uintptr(s.get("flags")))
		s.word("flags=%#x", message.Flags)
	}
	s.received(bytes, result)
}
