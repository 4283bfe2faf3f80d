// poll, select and epoll; and a look at everything.
package main

import (
	"encoding/binary"
	"fmt"
	"sort"
	"syscall"
	"unsafe"
)

const room = 16

// As in tests/src/differ/actor/readiness.rs.
const (
	moreWaits  = 17
	everything = 0x1 | 0x2 | 0x4 | 0x2000 | 0x40 | 0x80 | 0x100 | 0x200
)

type pollfd struct {
	fd      int32
	events  int16
	revents int16
}

func addReadiness() {
	calls["poll"] = poll
	calls["ppoll"] = poll
	calls["select"] = selectOf
	calls["pselect"] = selectOf
	calls["epoll_create"] = func(s *step) { s.named(s.make(syscall.SYS_EPOLL_CREATE1, 0)) }
	calls["epoll_ctl"] = func(s *step) {
		event := packed(uint32(s.get("events")), s.get("data"))
		s.make(syscall.SYS_EPOLL_CTL, uintptr(number(s.get("set"))), uintptr(s.get("op")), s.fd(), s.base(event))
	}
	calls["epoll_wait"] = epollWait
	calls["epoll_pwait"] = epollWait
	calls["epoll_pwait2"] = epollWait
	calls["probe"] = probe
}

// The kernel's epoll_event has no gap.
func packed(events uint32, data int64) []byte {
	event := make([]byte, 12)
	binary.LittleEndian.PutUint32(event, events)
	binary.LittleEndian.PutUint64(event[4:], uint64(data))
	return event
}

func chosen(set int64) []int64 {
	var found []int64
	for slot := int64(0); slot < slots; slot++ {
		if set>>uint(slot)&1 == 1 {
			found = append(found, slot)
		}
	}
	return found
}

func (s *step) time() *syscall.Timespec {
	if s.get("timeout") < 0 {
		return nil
	}
	time := syscall.NsecToTimespec(s.get("timeout") * 1_000_000)
	return &time
}

// No signal, or all: SIGURG as well, by which Go preempts.
func (s *step) mask() *uint64 {
	mask := uint64(0)
	if s.get("masked") != 0 {
		mask = ^mask
	}
	return &mask
}

func poll(s *step) {
	var fds []pollfd
	for _, slot := range chosen(s.get("set")) {
		fds = append(fds, pollfd{int32(number(slot)), int16(s.get("events")), -1})
	}
	fds = append(fds, pollfd{fd: -1})
	count, list := uintptr(len(fds)-1), s.at(unsafe.Pointer(&fds[0]))
	var result int64
	if s.call == "ppoll" {
		time := s.time()
		result = s.make(syscall.SYS_PPOLL, list, count, s.at(unsafe.Pointer(time)), s.at(unsafe.Pointer(s.mask())), 8)
	} else {
		result = s.make(syscall.SYS_POLL, list, count, uintptr(s.get("timeout")))
	}
	for index, slot := range chosen(s.get("set")) {
		if result >= 0 {
			s.word("%d:%#x", slot, fds[index].revents)
		}
	}
}

func selectOf(s *step) {
	var sets [3][1]uint64
	wanted := [3]int64{s.get("read"), s.get("write"), s.get("except")}
	for _, slot := range chosen(s.get("set")) {
		for index := range sets {
			if fd := number(slot); fd >= 0 && fd < 64 && wanted[index] != 0 {
				sets[index][0] |= 1 << uint(fd)
			}
		}
	}
	read, write, except := s.at(unsafe.Pointer(&sets[0])), s.at(unsafe.Pointer(&sets[1])), s.at(unsafe.Pointer(&sets[2]))
	var result int64
	if s.call == "pselect" {
		masked := [2]uintptr{s.at(unsafe.Pointer(s.mask())), 8}
		result = s.make(syscall.SYS_PSELECT6, 64, read, write, except, s.at(unsafe.Pointer(s.time())), s.at(unsafe.Pointer(&masked)))
	} else {
		var time *syscall.Timeval
		if s.get("timeout") >= 0 {
			value := syscall.NsecToTimeval(s.get("timeout") * 1_000_000)
			time = &value
		}
		result = s.make(syscall.SYS_SELECT, 64, read, write, except, s.at(unsafe.Pointer(time)))
	}
	for _, slot := range chosen(s.get("set")) {
		if fd := number(slot); result >= 0 && fd >= 0 && fd < 64 {
			bit := func(index int) uint64 { return sets[index][0] >> uint(fd) & 1 }
			s.word("%d:%d%d%d", slot, bit(0), bit(1), bit(2))
		}
	}
}

func epollWait(s *step) {
	most := int64(room)
	if s.has("max") && s.get("max") < room {
		most = s.get("max")
	}
	found, result, failure := s.waitOnce(s.get("timeout"), most)
	if failure != 0 {
		s.word("%s", errorName(failure))
		return
	}
	if s.get("ordered") != 0 || most < room {
		s.word("%d", result)
		return
	}
	times := map[string]int{}
	for index := 0; index <= moreWaits && result > 0; index++ {
		for _, event := range found {
			times[event]++
		}
		found, _, _ = s.waitOnce(0, most)
	}
	var texts []string
	for event, often := range times {
		texts = append(texts, fmt.Sprintf("%s:%v", event, often > 1))
	}
	sort.Strings(texts)
	s.word("%d %v", len(texts), texts)
}

func (s *step) waitOnce(timeout, most int64) ([]string, int64, syscall.Errno) {
	events := make([]byte, 12*room)
	set, list := uintptr(number(s.get("set"))), s.base(events)
	var result int64
	var failure syscall.Errno
	switch {
	case s.call == "epoll_pwait":
		result, failure = raw(syscall.SYS_EPOLL_PWAIT, set, list, uintptr(most), uintptr(timeout), s.at(unsafe.Pointer(s.mask())), 8)
	case s.call == "epoll_pwait2" && timeout >= 0:
		time := syscall.NsecToTimespec(timeout * 1_000_000)
		const epollPwait2 = 441
		result, failure = raw(epollPwait2, set, list, uintptr(most), s.at(unsafe.Pointer(&time)), s.at(unsafe.Pointer(s.mask())), 8)
	default:
		result, failure = raw(syscall.SYS_EPOLL_WAIT, set, list, uintptr(most), uintptr(timeout))
	}
	var found []string
	for index := int64(0); index < result; index++ {
		event := events[12*index:]
		found = append(found, fmt.Sprintf("%d:%#x", binary.LittleEndian.Uint64(event[4:]), binary.LittleEndian.Uint32(event)))
	}
	return found, result, failure
}

// Everything that can be asked about all sockets without changing them, but epoll sets.
func probe(s *step) {
	for slot := int64(0); slot < slots; slot++ {
		fd := number(slot)
		if fd < 0 || slot == 6 || slot == 7 || fd == number(6) || fd == number(7) {
			continue
		}
		one := [1]pollfd{{int32(fd), everything, 0}}
		raw(syscall.SYS_POLL, s.at(unsafe.Pointer(&one)), 1, 0)
		queued := int32(-1)
		raw(syscall.SYS_IOCTL, uintptr(fd), 0x541B, s.at(unsafe.Pointer(&queued)))
		s.word("%d:%#x:%s", slot, one[0].revents, shown(queued))
	}
}
