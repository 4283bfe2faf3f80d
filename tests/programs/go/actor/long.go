// What would take many steps: exchanging enough for a connection to be accelerated, moving many bytes; as
// tests/src/differ/actor/long.rs.
package main

import (
	"syscall"
	"time"
	"unsafe"
)

const (
	chunk    = 8192
	patience = 8 * time.Second
	endless  = 64 << 20
	dontwait = syscall.MSG_DONTWAIT | syscall.MSG_NOSIGNAL
)

func addLong() {
	calls["warm"] = warm
	calls["pour"] = pour
	calls["gather"] = gather
	calls["fill"] = fill
	calls["drain"] = drain
	calls["empty"] = drain
}

// Small messages there and back.
func warm(s *step) {
	word := []byte("warm")
	for round := int64(0); round < s.get("rounds"); round++ {
		for turn := int64(0); turn < 2; turn++ {
			var moved int64
			if turn == s.get("turn") {
				moved, _ = raw(syscall.SYS_SENDTO, s.fd(), s.base(word), 4, syscall.MSG_NOSIGNAL, 0, 0)
			} else {
				moved, _ = raw(syscall.SYS_RECVFROM, s.fd(), s.base(word), 4, syscall.MSG_WAITALL, 0, 0)
			}
			if moved != 4 {
				s.word("cold %d", moved)
				return
			}
		}
	}
	s.word("warm")
}

func wanted(at int64) byte {
	return byte(at ^ at>>8)
}

func (s *step) ready(events int16, timeout uintptr) int16 {
	one := [1]pollfd{{int32(s.fd()), events, 0}}
	raw(syscall.SYS_POLL, s.at(unsafe.Pointer(&one)), 1, timeout)
	return one[0].revents
}

func (s *step) push(at, end int64) (int64, syscall.Errno) {
	length := end - at
	if length > chunk {
		length = chunk
	}
	bytes := make([]byte, length)
	for index := range bytes {
		bytes[index] = wanted(at + int64(index))
	}
	return raw(syscall.SYS_SENDTO, s.fd(), s.base(bytes), uintptr(length), dontwait, 0, 0)
}

func (s *step) pull(most int64) ([]byte, syscall.Errno) {
	if most > 3*chunk {
		most = 3 * chunk
	}
	bytes := make([]byte, most)
	got, failure := raw(syscall.SYS_RECVFROM, s.fd(), s.base(bytes), uintptr(most), syscall.MSG_DONTWAIT, 0, 0)
	if failure != 0 {
		return nil, failure
	}
	return bytes[:got], 0
}

func pour(s *step) {
	start, sent := time.Now(), int64(0)
	for sent < s.get("total") {
		moved, failure := s.push(sent, s.get("total"))
		switch {
		case failure == 0:
			sent += moved
		case failure == syscall.EAGAIN && time.Since(start) < patience:
			s.ready(4, 1000)
		default:
			s.word("%s", errorName(failure))
			return
		}
	}
	s.word("poured")
}

func gather(s *step) {
	start, got, total := time.Now(), int64(0), s.get("total")
	for got < total {
		bytes, failure := s.pull(total - got)
		switch {
		case failure == syscall.EAGAIN && time.Since(start) < patience:
			s.ready(1, 1000)
			continue
		case failure != 0:
			s.word("%s ~got=%d", errorName(failure), got)
			return
		case len(bytes) == 0:
			s.word("end")
			return
		}
		for index, byte := range bytes {
			if byte != wanted(got+int64(index)) {
				s.word("wrong byte at %d", got+int64(index))
				return
			}
		}
		got += int64(len(bytes))
	}
	s.word("gathered")
}

// Sends until there is no more room; how much that is, is not compared.
func fill(s *step) {
	sent := int64(0)
	for {
		moved, failure := s.push(sent, endless)
		if failure == 0 {
			sent += moved
		} else if failure != syscall.EAGAIN || s.ready(4, 20)&4 == 0 {
			s.word("%s %#x ~sent=%d", errorName(failure), s.ready(4, 0), sent)
			return
		}
	}
}

// Receives until nothing is left. Where how much that is depends on the carrier ("empty"): only how it ends.
func drain(s *step) {
	var all []byte
	end := "end"
	for {
		bytes, failure := s.pull(1 << 20)
		if failure != 0 {
			end = errorName(failure)
			break
		}
		if len(bytes) == 0 {
			break
		}
		all = append(all, bytes...)
	}
	if s.call == "drain" {
		s.sum(all)
	}
	s.word("%s", end)
}
