package oncrpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A lentFile is a file of one mapping, which it lends to replies.
type lentFile struct {
	t    testing.TB
	fd   int
	mem  []byte
	out  atomic.Int64 // lent items
	lent atomic.Int64 // the same, from the beginning

	rereads atomic.Int64

	mu     sync.Mutex
	reread func() // if not nil, comes before each Reread
	bad    int    // the offset from which the medium fails,
	err    error  // with this error, or nil
}

// fileByte returns the byte of a file at an offset: never 0.
func fileByte(off int) byte { return byte(off*7+off>>12) | 1 }

func fileBytes(off, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = fileByte(off + i)
	}
	return p
}

func newLentFile(t testing.TB, size int) *lentFile {
	t.Helper()
	f := &lentFile{t: t}
	var err error
	f.fd, err = unix.MemfdCreate(t.Name(), unix.MFD_CLOEXEC)
	require.NoError(t, err)
	f.fillRange(0, size)
	f.mem, err = unix.Mmap(f.fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.Zero(t, f.out.Load(), "items that were not returned")
		assert.NoError(t, unix.Munmap(f.mem))
		assert.NoError(t, unix.Close(f.fd))
	})
	return f
}

func (f *lentFile) fillRange(from, to int) {
	_, err := unix.Pwrite(f.fd, fileBytes(from, to-from), int64(from))
	assert.NoError(f.t, err)
}

// truncateTo makes the file shorter, if it is not, but not while it is read again.
func (f *lentFile) truncateTo(size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var st unix.Stat_t
	assert.NoError(f.t, unix.Fstat(f.fd, &st))
	assert.NoError(f.t, unix.Ftruncate(f.fd, min(int64(size), st.Size)))
}

// onReread sets what happens in the Rereads from now on.
func (f *lentFile) onReread(before func(), bad int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reread, f.bad, f.err = before, bad, err
}

// lendItem makes a part of the file the item of a reply.
func (f *lentFile) lendItem(r *Reply, off, n int) {
	f.out.Add(1)
	f.lent.Add(1)
	r.Item, r.Cut = buf.Borrow(f.mem[off:off+n], f), cutWord
	r.Head = xdr.AppendUint32(r.Head, uint32(n))
}

// cutWord changes a head that ends with the item's length. Instead of no item with an
// error, there is no length either.
func cutWord(head []byte, n int, err error) []byte {
	if n == 0 && err != nil {
		return head[:len(head)-4]
	}
	binary.BigEndian.PutUint32(head[len(head)-4:], uint32(n))
	return head
}

func (f *lentFile) Return([]byte) { f.out.Add(-1) }

func (f *lentFile) Reread(mem []byte, at int, p []byte) (end int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rereads.Add(1)
	if f.reread != nil {
		f.reread()
	}
	start := len(f.mem) - cap(mem)
	if f.err != nil {
		p = p[:max(0, min(len(p), f.bad-start-at))]
	}
	n, err := unix.Pread(f.fd, p, int64(start+at))
	if err == nil && n < len(p) {
		var st unix.Stat_t
		if err = unix.Fstat(f.fd, &st); int(st.Size) < start+at {
			at = max(0, int(st.Size)-start)
		}
		return at + n, err
	}
	return at + n, errors.Join(f.err, err)
}

// Procedures of a lentFile's program.
const (
	procLend     = 1 // arguments: offset, length; results: an item in the mapping
	procTruncate = 2 // the same, and a length to which the file is truncated then
	procRead     = 3 // arguments: offset, length; results: an item in a buffer
	procReserve  = 4 // procLend, after memory for a long head was reserved in vain
)

func (f *lentFile) ServeRPC(_ context.Context, c *Call, r *Reply) error {
	off, n, size := int(c.Args.Uint32()), int(c.Args.Uint32()), -1
	if c.Proc == procTruncate {
		size = int(c.Args.Uint32())
	}
	if err := c.Args.Done(); err != nil {
		return err
	}
	if c.Proc == procRead || !r.Mappable {
		copy(r.NewItem(n), fileBytes(off, n))
		r.Head = xdr.AppendUint32(r.Head, uint32(n))
		return nil
	}
	if c.Proc == procReserve {
		r.Reserve(1 << 20)
	}
	f.lendItem(r, off, n)
	if size >= 0 {
		f.truncateTo(size)
	}
	return nil
}

func (f *lentFile) newMux() *Mux {
	m := &Mux{Log: discardLogger()}
	m.Register(testProg, 2, f)
	return m
}

// lendCall returns the record of a call of f's program.
func lendCall(xid, proc uint32, args ...int) []byte {
	var b []byte
	for _, a := range args {
		b = xdr.AppendUint32(b, uint32(a))
	}
	return newRecord(newCallMessage(xid, testProg, 2, proc, b...))
}

// lendReply returns the record of the reply with n bytes from off on, or of the failed one
// if n is below 0.
func lendReply(xid uint32, off, n int) []byte {
	b := rpcmsg.AppendAccepted(nil, xid, rpcmsg.Success)
	if n >= 0 {
		b = xdr.AppendOpaque(b, fileBytes(off, n))
	}
	return newRecord(b)
}

// A testLog is a log that tests read.
type testLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *testLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *testLog) debugLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// A lendingServer is a Server of a lentFile's program, and the test's client.
type lendingServer struct {
	*testServer
	f   *lentFile
	log *testLog
}

func newLending(t *testing.T, size int) *lendingServer {
	t.Helper()
	f, log := newLentFile(t, size), new(testLog)
	return &lendingServer{startServer(t, &Server{Handler: f.newMux(), MaxRecord: size + 1<<10, Log: log.debugLogger()}), f, log}
}

// dialSlow connects by a socket that takes few bytes at a time.
func (l *lendingServer) dialSlow() *net.TCPConn {
	l.t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		_ = c.Control(func(fd uintptr) {
			err = errors.Join(
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 600), // so that the window has some
			)
		})
		return err
	}}
	nc, err := d.DialContext(l.t.Context(), "tcp", l.addr)
	require.NoError(l.t, err)
	l.t.Cleanup(func() { nc.Close() })
	_, err = nc.Write(lendCall(1, procRead, 0, 0)) // makes sure that the server has accepted it
	require.NoError(l.t, err)
	readRecord(l.t, nc)
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if c.peer.Addr == addrPort(nc.LocalAddr()) {
			require.NoError(l.t, c.nc.(*net.TCPConn).SetWriteBuffer(4<<10))
		}
	}
	return nc.(*net.TCPConn)
}

// awaitReturned waits until all items have been returned.
func (l *lendingServer) awaitReturned() {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.f.out.Load() == 0 }, time.Minute, time.Millisecond)
}

// exchangeBytes sends calls in one write, and reads until want has come or the connection ends.
func (l *lendingServer) exchangeBytes(calls []byte, want int) []byte {
	l.t.Helper()
	nc := l.dialServer()
	defer nc.Close()
	_, err := nc.Write(calls)
	require.NoError(l.t, err)
	got := make([]byte, want)
	n, _ := io.ReadFull(nc, got)
	return got[:n]
}
