//go:build interop

package tls

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// mark is in data and in names.
const mark = "what nobody on the way may read"

// The sizes in bytes of the probe and its answer, with the marks of their records, and
// the place of the probe's flavor.
const (
	probeSize  = 4 + 40
	flavorAt   = 4 + 6*4
	answerSize = 4 + 32
)

// clearLimit is the number of bytes that an unencrypted connection may carry: Linux's
// MOUNT, contexts that rpc.gssd makes, and mounts that are refused.
const clearLimit = 20_000

// A checkingProxy passes connections on to a server. Behind a probe and its answer, it passes on
// nothing but TLS records (R9289-4.1-1).
type checkingProxy struct {
	*interop.Relay

	mu    sync.Mutex
	lines []*proxyConn
}

// A proxyConn is a connection: the bytes of its client, and of its server.
type proxyConn struct {
	mu     sync.Mutex
	tls    bool // the client has begun with the probe
	ways   [2]proxyDirection
	broken error
}

// A proxyDirection is one direction of a line.
type proxyDirection struct {
	*proxyConn
	clear int    // bytes before TLS
	head  []byte // these, or the first bytes of an unencrypted connection
	total int
	last  []byte // the last bytes, shorter than mark
	rest  []byte // the rest of a record's header
	skip  int    // bytes to the next record
}

func newWire(t *testing.T, server string) *checkingProxy {
	w := new(checkingProxy)
	w.Relay = interop.NewRelay(t, server, func() [2]io.Writer {
		l := new(proxyConn)
		l.ways[0], l.ways[1] = proxyDirection{proxyConn: l, clear: probeSize}, proxyDirection{proxyConn: l, clear: answerSize}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lines = append(w.lines, l)
		return [2]io.Writer{&l.ways[0], &l.ways[1]}
	})
	return w
}

func (w *checkingProxy) portNumber(t *testing.T) int { return portOf(t, w.Addr) }

func portOf(t *testing.T, addr string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	return n
}

// Write takes bytes that may pass.
func (w *proxyDirection) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == nil {
		w.broken = w.checkBytes(p)
	}
	return len(p), w.broken
}

func (w *proxyDirection) checkBytes(p []byte) error {
	w.total += len(p)
	seen := append(w.last, p...)
	if bytes.Contains(seen, []byte(mark)) {
		return fmt.Errorf("%q passes unencrypted", mark)
	}
	w.last = bytes.Clone(seen[max(0, len(seen)-len(mark)+1):])
	n := min(len(p), w.clear-len(w.head))
	w.head, p = append(w.head, p[:n]...), p[n:]
	if w == &w.ways[0] && len(w.head) == probeSize {
		w.tls = binary.BigEndian.Uint32(w.head[flavorAt:]) == rpcmsg.AuthTLS
	}
	if !w.tls {
		if w.total > clearLimit {
			return fmt.Errorf("more than %d unencrypted bytes", clearLimit)
		}
		return nil
	}
	return w.checkRecords(p)
}

// checkRecords returns an error if anything but TLS records is in p.
func (w *proxyDirection) checkRecords(p []byte) error {
	for len(p) > 0 {
		n := min(w.skip, len(p))
		w.skip, p = w.skip-n, p[n:]
		if w.skip > 0 || len(p) == 0 {
			return nil
		}
		n = min(5-len(w.rest), len(p))
		w.rest, p = append(w.rest, p[:n]...), p[n:]
		if len(w.rest) < 5 {
			return nil
		}
		kind, version := w.rest[0], binary.BigEndian.Uint16(w.rest[1:])
		w.skip = int(binary.BigEndian.Uint16(w.rest[3:]))
		if kind < 20 || kind > 23 || version < 0x0301 || version > 0x0303 || w.skip > 1<<14+256 {
			return fmt.Errorf("no TLS record: % x", w.rest)
		}
		w.rest = w.rest[:0]
	}
	return nil
}

// observed returns how many connections had TLS, how many bytes these had, and how many
// connections were unencrypted. What must not pass fails the test.
func (w *checkingProxy) observed(t *testing.T) (protected, size, clear int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, l := range w.lines {
		l.mu.Lock()
		assert.NoError(t, l.broken, "connection %d", i)
		if l.tls {
			protected++
			size += l.ways[0].total + l.ways[1].total
		} else {
			clear++
		}
		l.mu.Unlock()
	}
	return protected, size, clear
}

// TestWire checks that the wire stops what it must not pass.
func TestWire(t *testing.T) {
	probe := make([]byte, probeSize)
	binary.BigEndian.PutUint32(probe[flavorAt:], rpcmsg.AuthTLS)
	record := append([]byte{23, 3, 3, 0, 200}, make([]byte, 200)...)
	for name, tt := range map[string]struct {
		bytes  []byte
		passes bool
	}{
		"TLS":               {slices.Concat(probe, record, record), true},
		"a clear byte":      {slices.Concat(probe, record, []byte{0x80, 0, 0, 40, 1}), false},
		"a clear call":      {slices.Concat(probe, probe), false},
		"a mark in TLS":     {slices.Concat(probe, record[:50], []byte(mark)), false},
		"a mark in clear":   {slices.Concat(make([]byte, 1000), []byte(mark)), false},
		"little in clear":   {make([]byte, clearLimit), true},
		"too much in clear": {make([]byte, clearLimit+1), false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 7, len(tt.bytes)} { // bytes per write
				l := new(proxyConn)
				l.ways[0] = proxyDirection{proxyConn: l, clear: probeSize}
				var err error
				for b := range slices.Chunk(tt.bytes, size) {
					if _, err = l.ways[0].Write(b); err != nil {
						break
					}
				}
				assert.Equal(t, tt.passes, err == nil, "%v", err)
			}
		})
	}
}
