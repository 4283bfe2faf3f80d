// Bytes that both ends can make from a seed, and check.
package main

import (
	"hash/fnv"
	"io"
	"math/rand"
)

// A reader of so many bytes, the same for each seed.
type pattern struct {
	rng  *rand.Rand
	left int
}

func newPattern(seed int64, length int) *pattern {
	return &pattern{rand.New(rand.NewSource(seed)), length}
}

func (p *pattern) Read(buffer []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	if len(buffer) > p.left {
		buffer = buffer[:p.left]
	}
	p.rng.Read(buffer)
	p.left -= len(buffer)
	return len(buffer), nil
}

func bytesOf(seed int64, length int) []byte {
	all, err := io.ReadAll(newPattern(seed, length))
	check(err)
	return all
}

// The hash of so many bytes of a reader.
func hashOf(reader io.Reader, length int) uint64 {
	hash := fnv.New64a()
	copied, err := io.Copy(hash, io.LimitReader(reader, int64(length)))
	check(err)
	if copied != int64(length) {
		fail("%d bytes of %d", copied, length)
	}
	return hash.Sum64()
}

// The same to the reader's end, with their number.
func hashToEnd(reader io.Reader) (uint64, int64) {
	hash := fnv.New64a()
	copied, err := io.Copy(hash, reader)
	check(err)
	return hash.Sum64(), copied
}

// Demands that a reader gives the bytes of a seed.
func demand(reader io.Reader, seed int64, length int) {
	got, wanted := hashOf(reader, length), hashOf(newPattern(seed, length), length)
	if got != wanted {
		fail("%d bytes differ", length)
	}
}

func (s *session) send(bytes []byte) {
	written, err := s.Write(bytes)
	check(err)
	if written != len(bytes) {
		fail("%d of %d bytes written", written, len(bytes))
	}
}

func (s *session) receive(buffer []byte) []byte {
	_, err := io.ReadFull(s, buffer)
	check(err)
	return buffer
}

// One round trip to an end that echoes.
func (s *session) roundTrip(length int) {
	sent := make([]byte, length)
	s.rng.Read(sent)
	s.send(sent)
	if string(s.receive(make([]byte, length))) != string(sent) {
		fail("an echo of %d bytes differs", length)
	}
}
