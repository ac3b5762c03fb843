package oncrpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

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
	assert.True(t, ask(t, startServer(t, &Server{Handler: m}).dialServer()), "TCP")
	s := &Server{Handler: m}
	l := newPipeListener()
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	pipe := l.dialPipe()
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

// TestMappedTruncated checks the replies whose file is truncated before any of their bytes
// have left.
func TestMappedTruncated(t *testing.T) {
	const page, size = 4 << 10, 1 << 20
	l := newLending(t, size)
	type part struct{ off, n, left int } // left: below 0 for an error
	for name, tt := range map[string]struct {
		calls []byte
		size  int // final file size
		bad   error
		at    int // offset in the item at which the medium fails
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
				l.f.fillRange(0, size)
				l.f.onReread(func() {
					if tt.bad != nil {
						l.f.fillRange(0, tt.size)
					}
				}, tt.want[0].off+tt.at, tt.bad)
				got := l.exchangeBytes(tt.calls, len(want))
				if met = bytes.Equal(want, got); !met {
					same := 0
					for same < len(got) && got[same] == whole[same] {
						same++
					}
					for _, b := range got[same:] {
						require.Zero(t, b, "only zeros, in the page of the file's end, may stand for the data")
					}
				}
				l.awaitReturned()
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
			nc := l.dialSlow()
			_, err := nc.Write(append(lendCall(0, procLend, 0, size), lendCall(1, procRead, 0, 10)...))
			require.NoError(t, err)
			want := lendReply(0, 0, size)
			got := make([]byte, 100, len(want))
			_, err = io.ReadFull(nc, got)
			require.NoError(t, err)
			l.f.truncateTo(0)
			rest, err := io.ReadAll(nc)
			if err != nil {
				assert.ErrorIs(t, err, syscall.ECONNRESET)
			}
			got = append(got, rest...)
			assert.Less(t, len(got), len(want))
			assert.True(t, bytes.HasPrefix(want, got))
			l.awaitReturned()
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
		l.f.fillRange(0, size)
		held = max(held, l.Stats().Replies.InUse)
	}, 0, nil)
	nc := l.dialSlow()
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
	l.f.truncateTo(0)
	for len(got) < len(want) {
		n, err := nc.Read(got[len(got):min(len(got)+100, cap(got))])
		require.NoError(t, err)
		got = got[:len(got)+n]
	}
	assert.True(t, bytes.Equal(want, got))
	l.awaitReturned()
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
		l.f.fillRange(0, size)
		l.f.onReread(func() { l.f.fillRange(0, size) }, 0, nil)
		nc := l.dialSlow()
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
					l.f.truncateTo(random.IntN(size/4096) * 4096)
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
			got := newRecord(readRecord(t, slowReader{nc, random}))
			xid := binary.BigEndian.Uint32(got[markLen:])
			if !assert.True(t, bytes.Equal(replies[xid], got), "round %d: reply %d, %d bytes of %d", round, xid, len(got), len(replies[xid])) {
				break
			}
			delete(replies, xid)
		}
		close(stop)
		sent.Wait()
		nc.Close()
		l.awaitReturned()
	}
	assert.Greater(t, l.f.rereads.Load(), int64(10))
}

// slowReader reads few bytes at a time.
type slowReader struct {
	io.Reader
	random *rand.Rand
}

func (s slowReader) Read(p []byte) (int, error) {
	return s.Reader.Read(p[:min(len(p), 1+s.random.IntN(1<<s.random.IntN(14)))])
}

// TestMappedStalled checks that items in mappings take no memory of replies, and that a
// peer which takes none of them loses its connection, and the items, while others wait for
// memory.
func TestMappedStalled(t *testing.T) {
	const size = 1 << 20
	l := newLending(t, size)
	nc := l.dialSlow()
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
		l.abortStalled(round)
		time.Sleep(10 * time.Millisecond)
	}
	l.awaitReturned()
	assert.EqualValues(t, maxCalls, l.f.lent.Load())
}

// TestMappedReserved checks that an item in a mapping does not count as memory that the
// handler has reserved.
func TestMappedReserved(t *testing.T) {
	const size = 1 << 20
	l := newLending(t, size)
	nc := l.dialSlow()
	_, err := nc.Write(lendCall(0, procReserve, 0, size))
	require.NoError(t, err)
	want, got := lendReply(0, 0, size), make([]byte, size+1<<10)
	n, err := io.ReadFull(nc, got[:1000])
	require.NoError(t, err)
	assert.Zero(t, l.Stats().Replies.InUse)
	rest, err := io.ReadFull(nc, got[n:len(want)])
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got[:n+rest]))
	l.awaitReturned()
}
