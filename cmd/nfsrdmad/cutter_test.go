package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// A cuttingProxy is a proxy between RDMA clients and a server. It passes on MPA's
// start-up frames and FPDUs one by one, and cuts connections as its judges
// decide.
type cuttingProxy struct {
	l          net.Listener
	server     string
	newCutFunc func() cutFunc // called once per connection
	cuts       atomic.Int64

	mu     sync.Mutex
	conns  map[*proxiedConn]struct{}
	closed bool
	wg     sync.WaitGroup

	orphans sync.RWMutex // read-locked for each one whose server's end is open
}

// A cutFunc is called for each frame of a connection, in both directions, one
// call at a time. Unless how is spare, the connection is cut after the first at
// of the frame's n bytes.
type cutFunc func(n int) (at int, how cutKind)

// A cutKind is a way to cut a connection.
type cutKind int

const (
	noCut        cutKind = iota
	cutWithFIN           // each end sees that the other has closed
	cutWithReset         // both ends see a reset
	cutOrphan            // the server notices nothing until the client connects again
	cutKinds
)

// orphanTime is the time until the server's end of an orphan is closed. The cutter
// makes no connection before: as long as the old one seems to exist, the server takes
// a retransmission on a new one for another client's call (oncrpc/replay).
const orphanTime = 100 * time.Millisecond

// newCuttingProxy returns a cutter in front of a server.
func newCuttingProxy(t *testing.T, server string, knife func() cutFunc) *cuttingProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	k := &cuttingProxy{l: l, server: server, newCutFunc: knife, conns: make(map[*proxiedConn]struct{})}
	k.wg.Go(k.acceptConns)
	t.Cleanup(k.closeProxy)
	return k
}

func (k *cuttingProxy) addr() string { return k.l.Addr().String() }

func (k *cuttingProxy) closeProxy() {
	k.l.Close()
	k.mu.Lock()
	k.closed = true
	for w := range k.conns {
		w.client.Close()
		w.server.Close()
	}
	k.mu.Unlock()
	k.wg.Wait()
}

func (k *cuttingProxy) acceptConns() {
	for {
		client, err := k.l.Accept()
		if err != nil {
			return
		}
		k.orphans.Lock() // waits until the server's ends of all orphans are closed
		server, err := net.Dial("tcp", k.server)
		k.orphans.Unlock()
		if err != nil {
			client.Close()
			continue
		}
		w := &proxiedConn{cutter: k, client: client.(*net.TCPConn), server: server.(*net.TCPConn), cutAt: k.newCutFunc()}
		k.mu.Lock()
		if k.closed {
			client.Close()
			server.Close()
		}
		k.conns[w] = struct{}{}
		k.mu.Unlock()
		k.wg.Go(w.relayBoth)
	}
}

// A proxiedConn is one connection through a cutter.
type proxiedConn struct {
	cutter         *cuttingProxy
	client, server *net.TCPConn

	mu    sync.Mutex // held from the judgement of a frame until it is passed on
	cutAt cutFunc
	isCut bool
}

func (w *proxiedConn) relayBoth() {
	var wg sync.WaitGroup
	wg.Go(func() { w.relayFrames(w.server, w.client) })
	wg.Go(func() { w.relayFrames(w.client, w.server) })
	wg.Wait()
	w.client.Close()
	w.server.Close()
	w.cutter.mu.Lock()
	defer w.cutter.mu.Unlock()
	delete(w.cutter.conns, w)
}

// relayFrames passes on frames until src ends or the connection is cut.
func (w *proxiedConn) relayFrames(dst, src *net.TCPConn) {
	in := bufio.NewReaderSize(src, 1<<17)
	for first := true; ; first = false {
		frame, err := readFrame(in, first)
		if !w.relayFrame(dst, frame, err) {
			return
		}
	}
}

// relayFrame passes on one frame. It returns false after the last.
func (w *proxiedConn) relayFrame(dst *net.TCPConn, frame []byte, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.isCut:
		return false
	case err != nil:
		_ = dst.CloseWrite()
		return false
	}
	at, how := w.cutAt(len(frame))
	if how == noCut {
		at = len(frame)
	}
	_, _ = dst.Write(frame[:at]) // an error shows in the next read
	if how == noCut {
		return true
	}
	w.isCut = true
	w.cutter.cuts.Add(1)
	switch how {
	case cutOrphan:
		w.cutter.orphans.RLock()
		time.AfterFunc(orphanTime, func() {
			w.server.Close()
			w.cutter.orphans.RUnlock()
		})
		w.client.Close()
		return false
	case cutWithReset:
		_ = w.client.SetLinger(0)
		_ = w.server.SetLinger(0)
	}
	w.server.Close() // first: the client connects again at once
	w.client.Close()
	return false
}

// readFrame reads the start-up frame, or an FPDU: its length, ULPDU, padding and
// CRC field (RFC 5044, Sections 7.1 and 4).
func readFrame(in *bufio.Reader, first bool) ([]byte, error) {
	head := 2
	if first {
		head = mpa.HeaderLen
	}
	b, err := in.Peek(head)
	if err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(b[head-2:])) // length of private data, or of the ULPDU
	if first {
		n += head
	} else {
		n = (head+n+3)&^3 + 4
	}
	frame := make([]byte, n)
	_, err = io.ReadFull(in, frame)
	return frame, err
}
