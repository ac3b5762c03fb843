package oncrpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
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
	f.fill(0, size)
	f.mem, err = unix.Mmap(f.fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.Zero(t, f.out.Load(), "items that nobody has returned")
		assert.NoError(t, unix.Munmap(f.mem))
		assert.NoError(t, unix.Close(f.fd))
	})
	return f
}

func (f *lentFile) fill(from, to int) {
	_, err := unix.Pwrite(f.fd, fileBytes(from, to-from), int64(from))
	assert.NoError(f.t, err)
}

// truncate makes the file shorter, if it is not, but not while it is read again.
func (f *lentFile) truncate(size int) {
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

// borrow makes a part of the file the item of a reply.
func (f *lentFile) borrow(r *Reply, off, n int) {
	f.out.Add(1)
	f.lent.Add(1)
	r.Item, r.Cut = buf.Borrow(f.mem[off:off+n], f), cutWord
	r.Head = xdr.AppendUint32(r.Head, uint32(n))
}

// cutWord changes a head that ends with the length of the item. Instead of no item with an
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
	f.borrow(r, off, n)
	if size >= 0 {
		f.truncate(size)
	}
	return nil
}

func (f *lentFile) mux() *Mux {
	m := &Mux{Log: quiet()}
	m.Register(testProg, 2, f)
	return m
}

// lendCall returns the record of a call of f's program.
func lendCall(xid, proc uint32, args ...int) []byte {
	var b []byte
	for _, a := range args {
		b = xdr.AppendUint32(b, uint32(a))
	}
	return record(call(xid, testProg, 2, proc, b...))
}

// lendReply returns the record of the reply with n bytes from off on, or of the failed one
// if n is below 0.
func lendReply(xid uint32, off, n int) []byte {
	b := rpcmsg.AppendAccepted(nil, xid, rpcmsg.Success)
	if n >= 0 {
		b = xdr.AppendOpaque(b, fileBytes(off, n))
	}
	return record(b)
}

// TestMappable checks that only connections whose bytes the kernel reads from their place
// may have items in mappings.
func TestMappable(t *testing.T) {
	seen := make(chan bool, 1)
	m := new(Mux)
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, _ *Call, r *Reply) error {
		seen <- r.Mappable
		return nil
	}))
	ask := func(t *testing.T, nc net.Conn) bool {
		_, err := nc.Write(streamOf(1))
		require.NoError(t, err)
		readRecord(t, nc)
		return <-seen
	}
	assert.True(t, ask(t, start(t, &Server{Handler: m}).dial()), "TCP")
	s := &Server{Handler: m}
	l := newPipeListener()
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	pipe := l.dial()
	assert.False(t, ask(t, pipe), "a pipe")
	pipe.Close()
	over := l.dialOver(t)
	assert.False(t, ask(t, over), "a connection above TCP, such as TLS")
	over.Close()
	assert.NoError(t, s.Shutdown(t.Context()))
	assert.NoError(t, <-served)
	checkNothingLeft(t, s)
}

// dialOver connects over TCP. The server's end is of another type, which looks at the
// bytes.
func (l *pipeListener) dialOver(t *testing.T) net.Conn {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer tcp.Close()
	client, err := net.Dial("tcp", tcp.Addr().String())
	require.NoError(t, err)
	server, err := tcp.Accept()
	require.NoError(t, err)
	l.conns <- struct{ net.Conn }{server}
	return client
}

// A fakeKernel is a connection that takes bytes as the kernel does: some at a time, of
// several elements together, and all or none of them. It returns EFAULT in front of those
// that it cannot read.
type fakeKernel struct {
	net.Conn
	taken        []byte
	first, chunk int // how many bytes it takes at first, unless 0, and then
	gone         map[*byte]bool
}

func (k *fakeKernel) WriteBuffers(v *net.Buffers) (total int64, err error) {
	for len(*v) > 0 {
		n := k.chunk
		if k.first > 0 {
			n, k.first = k.first, 0
		}
		var chunk []byte
		for _, b := range *v {
			b = b[:min(len(b), n-len(chunk))]
			if len(b) > 0 && k.gone[&b[0]] {
				return total, &net.OpError{Op: "writev", Err: syscall.EFAULT}
			}
			chunk = append(chunk, b...)
		}
		k.taken = append(k.taken, chunk...)
		total += int64(len(chunk))
		for n = len(chunk); len(*v) > 0 && n >= len((*v)[0]); *v = (*v)[1:] {
			n -= len((*v)[0])
			(*v)[0] = nil
		}
		if n > 0 {
			(*v)[0] = (*v)[0][n:]
		}
	}
	return total, nil
}

func (k *fakeKernel) Security() *Security              { return nil }
func (k *fakeKernel) Close() error                     { return nil }
func (k *fakeKernel) SetWriteDeadline(time.Time) error { return nil }
func (k *fakeKernel) LocalAddr() net.Addr              { return pipeAddr{} }
func (k *fakeKernel) RemoteAddr() net.Addr             { return pipeAddr{} }

// A fakeItem is the owner of an item of which others have truncated the file.
type fakeItem struct {
	data []byte
	end  int // of what can be read again
	err  error
	out  int // lent and not returned
}

func (f *fakeItem) Return([]byte) { f.out-- }

func (f *fakeItem) Reread(_ []byte, at int, p []byte) (int, error) {
	if f.end < at {
		return f.end, f.err
	}
	n := copy(p, f.data[at:f.end])
	return at + n, f.err
}

// writeFake has the records of the items written to k, in one batch, and returns what the
// connection has ended with. Items whose err is errPlain are in buffers.
func writeFake(t *testing.T, s *Server, k *fakeKernel, items []*fakeItem, gone ...int) error {
	c := newTCPConn(s, k, s.parties.Enter(k.RemoteAddr()))
	defer s.parties.Leave(c.party)
	k.gone = make(map[*byte]bool)
	for i, f := range items {
		cl := c.newCall()
		cl.aside = true // it has no slot
		c.all.Add(1)
		r := &cl.reply
		r.Head = append(r.Head, "head"...)
		if f.err == errPlain {
			copy(r.NewItem(len(f.data)), f.data)
		} else {
			f.out++
			r.Item, r.Cut = buf.Borrow(bytes.Clone(f.data), f), cutWord
		}
		r.Head = xdr.AppendUint32(r.Head, uint32(len(f.data)))
		for _, g := range gone {
			if g == i {
				k.gone[&r.Item.B[0]] = true
			}
		}
		c.out.put(cl, i < len(items)-1)
	}
	err := context.Cause(c.ctx)
	c.abort(nil)
	for i, f := range items {
		assert.Zero(t, f.out, "item %d", i)
	}
	assert.Zero(t, s.replies.InUse())
	assert.Zero(t, buf.Default.Out())
	return err
}

var errPlain = errors.New("this item is in a buffer")

// fakeRecord returns the record of an item that has n bytes, and err.
func fakeRecord(f *fakeItem, n int, err error) []byte {
	head := []byte("head")
	if n > 0 || err == nil {
		head = xdr.AppendOpaque(head, f.data[:n])
	}
	return record(head)
}

// TestVanishedAnywhere checks that, wherever the kernel stops, the peer gets whole records
// with the data that there are. If it cannot, because a record has begun to leave, it gets
// nothing wrong, and the connection ends.
func TestVanishedAnywhere(t *testing.T) {
	s := &Server{Handler: echoMux(), Log: quiet()}
	s.init()
	sizes := []int{13, 6, 8, 5}
	items := make([]*fakeItem, len(sizes))
	var whole []byte
	starts, ends := make([]int, len(sizes)), make([]int, len(sizes)) // of the records in the stream; the ends without padding
	for i, n := range sizes {
		items[i] = &fakeItem{data: fileBytes(100*i, n)}
		starts[i] = len(whole)
		whole = append(whole, fakeRecord(items[i], n, nil)...)
		ends[i] = len(whole) - xdr.Pad(n)
	}
	reset := func() {
		for i, f := range items {
			f.end, f.err = len(f.data), nil
			if i == 1 {
				f.err = errPlain
			}
		}
	}
	cuts, lost := make(map[int]int), make(map[int]int)
	try := func(first, chunk int, gone []int) (ok bool) {
		// All data can be read again.
		reset()
		k := &fakeKernel{first: first, chunk: chunk}
		what := []any{"%v, %d and %d bytes", gone, first, chunk}
		if !assert.NoError(t, writeFake(t, s, k, items, gone...), what...) || !assert.Equal(t, whole, k.taken, what...) {
			return false
		}
		// One of those that are gone is shorter by now.
		for _, i := range gone {
			for _, short := range []struct {
				end int
				err error
			}{{0, nil}, {0, unix.EIO}, {4, nil}, {3, unix.EIO}, {sizes[i] - 1, nil}} {
				reset()
				items[i].end, items[i].err = short.end, short.err
				k := &fakeKernel{first: first, chunk: chunk}
				err := writeFake(t, s, k, items, gone...)
				what := []any{"%v without %d from %d on, %d and %d bytes", gone, i, short.end, first, chunk}
				if errors.Is(err, errShrunk) { // a part of the record has left
					lost[i]++
					n := len(k.taken)
					if !assert.True(t, starts[i] < n && n < ends[i] && bytes.Equal(whole[:n], k.taken), what...) {
						return false
					}
					if short.err != nil {
						assert.ErrorIs(t, err, short.err, what...)
					}
					continue
				}
				cuts[i]++
				end := len(whole)
				if i+1 < len(starts) {
					end = starts[i+1]
				}
				want := append(bytes.Clone(whole[:starts[i]]), fakeRecord(items[i], short.end, short.err)...)
				want = append(want, whole[end:]...)
				if !assert.NoError(t, err, what...) || !assert.Equal(t, want, k.taken, what...) {
					return false
				}
			}
		}
		return true
	}
	for _, gone := range [][]int{nil, {0}, {2}, {3}, {0, 2}, {2, 3}, {0, 2, 3}} {
		for first := range len(whole) {
			for _, chunk := range []int{1, 7, 16, 1000} {
				if !try(first, chunk, gone) {
					return
				}
			}
		}
	}
	for _, i := range []int{0, 2, 3} {
		assert.Greater(t, cuts[i], 20, "item %d", i)
		assert.Greater(t, lost[i], 20, "item %d", i)
	}
}

// TestVanishedNoMemory checks that a write never waits for memory: others may wait for the
// write.
func TestVanishedNoMemory(t *testing.T) {
	s := &Server{Handler: echoMux(), Log: quiet()}
	s.init()
	free := fill(t, s.replies, 0)
	k := &fakeKernel{first: 10, chunk: 100}
	f := &fakeItem{data: fileBytes(0, 100), end: 100}
	c := newTCPConn(s, k, s.parties.Enter(k.RemoteAddr()))
	cl := c.newCall()
	cl.aside = true
	c.all.Add(1)
	f.out++
	cl.reply.Item, cl.reply.Cut = buf.Borrow(f.data, f), cutWord
	cl.reply.Head = append(cl.reply.Head, "length"...)
	k.gone = map[*byte]bool{&f.data[0]: true}
	c.out.put(cl, false)
	assert.ErrorIs(t, context.Cause(c.ctx), errShrunk)
	assert.Zero(t, f.out)
	assert.Len(t, k.taken, 10)
	free()
	s.parties.Leave(c.party)
	assert.Zero(t, s.replies.InUse())
	assert.Zero(t, buf.Default.Out())
}

// A logbook is a log that tests read.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logbook) debug() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// A lending is a Server of a lentFile's program, and the test's client.
type lending struct {
	*running
	f   *lentFile
	log *logbook
}

func newLending(t *testing.T, size int) *lending {
	t.Helper()
	f, log := newLentFile(t, size), new(logbook)
	return &lending{start(t, &Server{Handler: f.mux(), MaxRecord: size + 1<<10, Log: log.debug()}), f, log}
}

// narrow connects by a socket that takes few bytes at a time.
func (l *lending) narrow() *net.TCPConn {
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

// returned waits until all items have been returned.
func (l *lending) returned() {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.f.out.Load() == 0 }, time.Minute, time.Millisecond)
}

// exchange sends calls in one write, and reads until want has come or the connection ends.
func (l *lending) exchange(calls []byte, want int) []byte {
	l.t.Helper()
	nc := l.dial()
	defer nc.Close()
	_, err := nc.Write(calls)
	require.NoError(l.t, err)
	got := make([]byte, want)
	n, _ := io.ReadFull(nc, got)
	return got[:n]
}

// TestMappedTruncated checks the replies whose file is truncated before any of their bytes
// have left.
func TestMappedTruncated(t *testing.T) {
	const page, size = 4 << 10, 1 << 20
	l := newLending(t, size)
	type part struct{ off, n, left int } // left: below 0 for an error
	for name, tt := range map[string]struct {
		calls []byte
		size  int // of the file in the end
		bad   error
		at    int // of the item, where the medium fails
		want  []part
	}{
		"none":           {lendCall(0, procTruncate, 0, size, size), size, nil, 0, []part{{0, size, size}}},
		"all":            {lendCall(0, procTruncate, 0, 3*page, 0), 0, nil, 0, []part{{0, 3 * page, 0}}},
		"in front":       {lendCall(0, procTruncate, 5*page+1, 3*page, page), page, nil, 0, []part{{5*page + 1, 3 * page, 0}}},
		"in the middle":  {lendCall(0, procTruncate, page-3, 2*page, 2*page), 2 * page, nil, 0, []part{{page - 3, 2 * page, page + 3}}},
		"within a page":  {lendCall(0, procTruncate, page+5, 2*page, page+100), page + 100, nil, 0, []part{{page + 5, 2 * page, 95}}},
		"fails":          {lendCall(0, procTruncate, page, 2*page, 0), 0, unix.EIO, 0, []part{{page, 2 * page, -1}}},
		"fails later":    {lendCall(0, procTruncate, 0, 3*page, 0), 3 * page, unix.EIO, 2 * page, []part{{0, 3 * page, 2 * page}}},
		"behind a whole": {append(lendCall(0, procLend, 0, 2*page), lendCall(1, procTruncate, 2*page, 3*page, 2*page)...), 2 * page, nil, 0, []part{{0, 2 * page, 2 * page}, {2 * page, 3 * page, 0}}},
		"both":           {append(lendCall(0, procLend, 0, 2*page+1), lendCall(1, procTruncate, 2*page, 3*page, 0)...), 0, nil, 0, []part{{0, 2*page + 1, 0}, {2 * page, 3 * page, 0}}},
		"behind a plain": {append(lendCall(0, procRead, 7, 2*page+1), lendCall(1, procTruncate, 2*page, 3*page, 0)...), 0, nil, 0, []part{{7, 2*page + 1, 2*page + 1}, {2 * page, 3 * page, 0}}},
		"between plain":  {bytes.Join([][]byte{lendCall(0, procRead, 7, 1), lendCall(1, procTruncate, 2*page, 3*page, 3*page), lendCall(2, procRead, 9, 3)}, nil), 3 * page, nil, 0, []part{{7, 1, 1}, {2 * page, 3 * page, page}, {9, 3, 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			var want, whole []byte
			for xid, p := range tt.want {
				want = append(want, lendReply(uint32(xid), p.off, p.left)...)
				whole = append(whole, lendReply(uint32(xid), p.off, p.n)...)
			}
			met := false
			for try := 0; try < 100 && !met; try++ { // the kernel may have taken a part already
				l.f.fill(0, size)
				l.f.onReread(func() {
					if tt.bad != nil {
						l.f.fill(0, tt.size)
					}
				}, tt.want[0].off+tt.at, tt.bad)
				got := l.exchange(tt.calls, len(want))
				if met = bytes.Equal(want, got); !met {
					same := 0
					for same < len(got) && got[same] == whole[same] {
						same++
					}
					for _, b := range got[same:] {
						require.Zero(t, b, "only zeros, in the page of the file's end, may stand for the data")
					}
				}
				l.returned()
			}
			assert.True(t, met)
		})
	}
}

// TestMappedShrinks checks that a connection ends if a reply of which a part has left cannot
// be completed, and that nothing else is sent and nothing is kept.
func TestMappedShrinks(t *testing.T) {
	const size = 8 << 20
	for name, bad := range map[string]error{"truncated": nil, "unreadable": unix.EIO} {
		t.Run(name, func(t *testing.T) {
			l := newLending(t, size)
			l.f.onReread(nil, 0, bad)
			nc := l.narrow()
			_, err := nc.Write(append(lendCall(0, procLend, 0, size), lendCall(1, procRead, 0, 10)...))
			require.NoError(t, err)
			want := lendReply(0, 0, size)
			got := make([]byte, 100, len(want))
			_, err = io.ReadFull(nc, got)
			require.NoError(t, err)
			l.f.truncate(0)
			rest, err := io.ReadAll(nc)
			if err != nil {
				assert.ErrorIs(t, err, syscall.ECONNRESET)
			}
			got = append(got, rest...)
			assert.Less(t, len(got), len(want))
			assert.True(t, bytes.HasPrefix(want, got))
			l.returned()
			require.Eventually(t, func() bool { return l.Stats().Now == 0 }, time.Minute, time.Millisecond)
			assert.Zero(t, l.Stats().Replies.InUse)
			assert.Contains(t, l.log.String(), errShrunk.Error())
			if bad != nil {
				assert.Contains(t, l.log.String(), bad.Error())
			}
		})
	}
}

// TestMappedGrown checks that a reply is complete if its file has its bytes again when they
// are read in another way, however few bytes the peer takes at a time. The copy is counted
// in the memory of replies.
func TestMappedGrown(t *testing.T) {
	const size = 2 << 20
	l := newLending(t, size)
	held := int64(0)
	l.f.onReread(func() {
		l.f.fill(0, size)
		held = max(held, l.Stats().Replies.InUse)
	}, 0, nil)
	nc := l.narrow()
	_, err := nc.Write(append(lendCall(0, procLend, 3, size-3), lendCall(1, procLend, 7, 20<<10)...))
	require.NoError(t, err)
	want := append(lendReply(0, 3, size-3), lendReply(1, 7, 20<<10)...)
	got := make([]byte, 0, len(want))
	for len(got) < 5000 { // by single bytes
		var b [1]byte
		_, err := nc.Read(b[:])
		require.NoError(t, err)
		got = append(got, b[0])
	}
	l.f.truncate(0)
	for len(got) < len(want) {
		n, err := nc.Read(got[len(got):min(len(got)+100, cap(got))])
		require.NoError(t, err)
		got = got[:len(got)+n]
	}
	assert.True(t, bytes.Equal(want, got))
	l.returned()
	assert.Positive(t, l.f.rereads.Load())
	l.f.mu.Lock()
	assert.EqualValues(t, buf.Size(size-3), held)
	l.f.mu.Unlock()
	require.Eventually(t, func() bool { return l.Stats().Replies.InUse == 0 }, time.Minute, time.Millisecond)
}

// TestMappedStorm checks the stream of many replies whose file is truncated and written
// again all the time: it is exact.
func TestMappedStorm(t *testing.T) {
	const size, calls = 256 << 10, 40
	l := newLending(t, size)
	for round := range uint64(30) {
		random := rand.New(rand.NewPCG(1, round))
		l.f.fill(0, size)
		l.f.onReread(func() { l.f.fill(0, size) }, 0, nil)
		nc := l.narrow()
		var stream, want []byte
		for xid := range uint32(calls) {
			off := random.IntN(size)
			n := min(size-off, random.IntN(40<<10))
			if random.IntN(4) == 0 {
				n = min(n, 100)
			}
			proc := uint32(procLend)
			if n == 0 || random.IntN(4) == 0 {
				proc = procRead
			}
			stream = append(stream, lendCall(xid, proc, off, n)...)
			want = append(want, lendReply(xid, off, n)...)
		}
		var sent sync.WaitGroup
		stop := make(chan struct{})
		sent.Go(func() {
			_, err := nc.Write(stream)
			assert.NoError(t, err)
		})
		sent.Go(func() {
			for random := rand.New(rand.NewPCG(2, round)); ; {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(random.IntN(1000)) * time.Microsecond):
					l.f.truncate(random.IntN(size/4096) * 4096)
				}
			}
		})
		replies := make(map[uint32][]byte)
		for at := 0; at < len(want); {
			n := markLen + int(binary.BigEndian.Uint32(want[at:])&^lastFrag)
			replies[binary.BigEndian.Uint32(want[at+markLen:])] = want[at : at+n]
			at += n
		}
		for range calls { // in any order
			got := record(readRecord(t, slowly{nc, random}))
			xid := binary.BigEndian.Uint32(got[markLen:])
			if !assert.True(t, bytes.Equal(replies[xid], got), "round %d: reply %d, %d bytes of %d", round, xid, len(got), len(replies[xid])) {
				break
			}
			delete(replies, xid)
		}
		close(stop)
		sent.Wait()
		nc.Close()
		l.returned()
	}
	assert.Greater(t, l.f.rereads.Load(), int64(10))
}

// slowly reads few bytes at a time.
type slowly struct {
	io.Reader
	random *rand.Rand
}

func (s slowly) Read(p []byte) (int, error) {
	return s.Reader.Read(p[:min(len(p), 1+s.random.IntN(1<<s.random.IntN(14)))])
}

// TestMappedStalled checks that items in mappings take no memory of replies, and that a
// peer which takes none of them loses its connection, and the items, while others wait for
// memory.
func TestMappedStalled(t *testing.T) {
	const size = 1 << 20
	l := newLending(t, size)
	nc := l.narrow()
	for xid := range uint32(2 * maxCalls) {
		_, err := nc.Write(lendCall(xid, procLend, 0, size))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return l.f.out.Load() == maxCalls }, time.Minute, time.Millisecond)
	time.Sleep(10 * time.Millisecond)
	assert.EqualValues(t, maxCalls, l.f.out.Load(), "as many as there are slots")
	assert.Zero(t, l.Stats().Replies.InUse)
	for round := uint64(1); l.Stats().Stalled == 0; round++ {
		require.Less(t, round, uint64(100))
		l.cutStalled(round)
		time.Sleep(10 * time.Millisecond)
	}
	l.returned()
	assert.EqualValues(t, maxCalls, l.f.lent.Load())
}

// TestMappedReserved checks that an item in a mapping does not count as memory that the
// handler has reserved.
func TestMappedReserved(t *testing.T) {
	const size = 1 << 20
	l := newLending(t, size)
	nc := l.narrow()
	_, err := nc.Write(lendCall(0, procReserve, 0, size))
	require.NoError(t, err)
	want, got := lendReply(0, 0, size), make([]byte, size+1<<10)
	n, err := io.ReadFull(nc, got[:1000])
	require.NoError(t, err)
	assert.Zero(t, l.Stats().Replies.InUse)
	rest, err := io.ReadFull(nc, got[n:len(want)])
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got[:n+rest]))
	l.returned()
}
