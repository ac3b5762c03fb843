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

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
)

// A cutter is a proxy between RDMA clients and a server. It passes on MPA's
// start-up frames and FPDUs one by one, and cuts connections as its judges
// decide.
type cutter struct {
	l      net.Listener
	server string
	knife  func() judge // called once per connection
	cuts   atomic.Int64

	mu    sync.Mutex
	wires map[*wire]struct{}
	shut  bool
	wg    sync.WaitGroup
}

// A judge is called for each frame of a connection, in both directions, one
// call at a time. Unless how is spare, the connection is cut after the first at
// of the frame's n bytes.
type judge func(n int) (at int, how manner)

// A manner is a way to cut a connection.
type manner int

const (
	spare  manner = iota
	finish        // each end sees that the other has closed
	reset         // both ends see a reset
	orphan        // the server notices nothing for a while
	manners
)

// orphaned is the time until the server notices an orphan.
const orphaned = 100 * time.Millisecond

// newCutter returns a cutter in front of a server.
func newCutter(t *testing.T, server string, knife func() judge) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	k := &cutter{l: l, server: server, knife: knife, wires: make(map[*wire]struct{})}
	k.wg.Go(k.run)
	t.Cleanup(k.close)
	return k
}

func (k *cutter) addr() string { return k.l.Addr().String() }

func (k *cutter) close() {
	k.l.Close()
	k.mu.Lock()
	k.shut = true
	for w := range k.wires {
		w.client.Close()
		w.server.Close()
	}
	k.mu.Unlock()
	k.wg.Wait()
}

func (k *cutter) run() {
	for {
		client, err := k.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", k.server)
		if err != nil {
			client.Close()
			continue
		}
		w := &wire{cutter: k, client: client.(*net.TCPConn), server: server.(*net.TCPConn), judge: k.knife()}
		k.mu.Lock()
		if k.shut {
			client.Close()
			server.Close()
		}
		k.wires[w] = struct{}{}
		k.mu.Unlock()
		k.wg.Go(w.run)
	}
}

// A wire is one connection through a cutter.
type wire struct {
	cutter         *cutter
	client, server *net.TCPConn

	mu    sync.Mutex // held from the judgement of a frame until it is passed on
	judge judge
	cut   bool
}

func (w *wire) run() {
	var wg sync.WaitGroup
	wg.Go(func() { w.pump(w.server, w.client) })
	wg.Go(func() { w.pump(w.client, w.server) })
	wg.Wait()
	w.client.Close()
	w.server.Close()
	w.cutter.mu.Lock()
	defer w.cutter.mu.Unlock()
	delete(w.cutter.wires, w)
}

// pump passes on frames until src ends or the connection is cut.
func (w *wire) pump(dst, src *net.TCPConn) {
	in := bufio.NewReaderSize(src, 1<<17)
	for first := true; ; first = false {
		frame, err := readFrame(in, first)
		if !w.pass(dst, frame, err) {
			return
		}
	}
}

// pass passes on one frame. It returns false after the last.
func (w *wire) pass(dst *net.TCPConn, frame []byte, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.cut:
		return false
	case err != nil:
		_ = dst.CloseWrite()
		return false
	}
	at, how := w.judge(len(frame))
	if how == spare {
		at = len(frame)
	}
	_, _ = dst.Write(frame[:at]) // an error shows in the next read
	if how == spare {
		return true
	}
	w.cut = true
	w.cutter.cuts.Add(1)
	switch how {
	case orphan:
		w.client.Close()
		time.AfterFunc(orphaned, func() { w.server.Close() })
		return false
	case reset:
		_ = w.client.SetLinger(0)
		_ = w.server.SetLinger(0)
	}
	w.client.Close()
	w.server.Close()
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
