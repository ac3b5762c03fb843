package rpcrdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// An exposure is memory that a requester lets its server reach.
type exposure struct {
	rdma.Region
	mem    []byte
	access rdma.Access
	w      *watchedConn
}

// Deregister ends the exposure, just after onEnd.
func (e *exposure) Deregister() {
	w := e.w
	w.mu.Lock()
	if w.onEnd != nil && w.live[e] {
		w.onEnd(e)
	}
	delete(w.live, e)
	w.mu.Unlock()
	e.Region.Deregister()
}

// Remap exchanges the memory (rdma.Remapper).
func (e *exposure) Remap(b []byte) {
	w := e.w
	w.mu.Lock()
	e.mem = b
	w.mu.Unlock()
	e.Region.(rdma.Remapper).Remap(b)
}

// Placed reports whether the server has written the first n bytes
// (rdma.Placer).
func (e *exposure) Placed(n int) bool { return e.Region.(rdma.Placer).Placed(n) }

// A watchedConn records the exposed memory.
type watchedConn struct {
	rdma.Conn
	noRemap bool // memory cannot be exchanged
	fail    int  // counts down to a registration that fails
	mu      sync.Mutex
	live    map[*exposure]bool
	onEnd   func(*exposure)

	onRegister func()
}

var errNoRegister = errors.New("no memory can be registered")

func (w *watchedConn) Register(b []byte, access rdma.Access) (rdma.Region, error) {
	w.mu.Lock()
	w.fail--
	fails := w.fail == 0
	w.mu.Unlock()
	if fails {
		return nil, errNoRegister
	}
	if w.onRegister != nil {
		w.onRegister()
	}
	r, err := w.Conn.Register(b, access)
	if err != nil {
		return nil, err
	}
	e := &exposure{r, b, access, w}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live[e] = true
	if w.noRemap {
		return struct{ rdma.Region }{e}, nil
	}
	return e, nil
}

// exposedBytes returns the memory exposed for reading, and for writing.
func (w *watchedConn) exposedBytes(t *testing.T) (read, written [][]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e := range w.live {
		switch e.access {
		case rdma.RemoteRead:
			read = append(read, e.mem)
		case rdma.RemoteWrite | rdma.Scratch:
			written = append(written, e.mem)
		default:
			assert.Fail(t, "exposed for more than one purpose", "%v", e.access)
		}
	}
	return read, written
}

// watchConn replaces a requester's connection by a watchedConn.
func watchConn(c *ClientConn) *watchedConn {
	w := &watchedConn{Conn: c.conn, live: make(map[*exposure]bool)}
	c.conn = w
	return w
}

// TestClientExposes checks that, while a call is in flight, the server reaches
// only the call's memory, and none after the call returns (R8166-8.1-1,
// R5042-6.3.2-1, R5042-6.3.3-1, R5042-6.3.4-1, R5042-6.3.5-1, R5042-6.3.6-1).
func TestClientExposes(t *testing.T) {
	for _, tt := range []struct {
		args, results, item int
		read                bool // the arguments are exposed, in the requester's memory
		written             int  // exposed bytes, at least the results'; 0: none
	}{
		{0, 0, 0, false, 0},
		{100, 100, 0, false, 0},
		{9000, 0, 0, true, 0},
		{0, 0, 9000, false, 9000},
		{0, 9000, 0, false, 9000},
		{9000, 9000, 0, true, 9000},
		{9000, 0, 9001, true, 9001},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			withClientConn(t, &Server{}, ClientConnConfig{}, func(t *testing.T, c *ClientConn, e *echoProgram, _ *memDialer) {
				require.NoError(t, callEcho(t.Context(), c, 0, 0, 0)) // leaves other calls' bytes in pooled memory
				w := watchConn(c)
				e.onCall = func() {
					read, written := w.exposedBytes(t)
					if tt.read && assert.Len(t, read, 1) {
						assert.True(t, bytes.Equal(rampBytes(tt.args), read[0]), "its bytes, and no more")
					}
					if tt.written > 0 && assert.Len(t, written, 1) {
						assert.GreaterOrEqual(t, len(written[0]), tt.written)
						assert.LessOrEqual(t, len(written[0]), tt.written+oncrpc.MaxReplyHeader+24)
						assert.Equal(t, make([]byte, len(written[0])), written[0], "no stale bytes")
					}
					assert.Equal(t, tt.read, len(read) > 0)
					assert.Equal(t, tt.written > 0, len(written) > 0)
				}
				require.NoError(t, callEcho(t.Context(), c, tt.args, tt.results, tt.item))
				assert.Empty(t, w.live)
			})
		})
	}
}

// TestClientExposesNoLonger checks that a call's exposed memory is withdrawn
// when the caller gives up, at once if memory cannot be exchanged.
func TestClientExposesNoLonger(t *testing.T) {
	withClientConn(t, &Server{}, ClientConnConfig{}, func(t *testing.T, c *ClientConn, e *echoProgram, _ *memDialer) {
		require.NoError(t, callEcho(t.Context(), c, 0, 0, 0))
		w := watchConn(c)
		w.noRemap = true
		ctx, cancel := context.WithCancel(t.Context())
		e.onCall = cancel
		e.hold = make(chan struct{})
		require.ErrorIs(t, callEcho(ctx, c, 9000, 0, 9000), context.Canceled) // R5042-6.3.3-1
		assert.Empty(t, w.live)
		close(e.hold)
	})
}

// TestClientExposesMessage checks that the server reaches exactly the message,
// if it is read as a whole (R5042-6.3.4-1).
func TestClientExposesMessage(t *testing.T) {
	withClientConn(t, &Server{}, ClientConnConfig{}, func(t *testing.T, c *ClientConn, e *echoProgram, _ *memDialer) {
		w := watchConn(c)
		x := &oncrpc.Exchange{Prog: echoProg, Vers: 1, Proc: 1, MaxResults: 24}
		x.Args = append(xdr.AppendUint64(nil, 0), xdr.AppendOpaque(nil, rampBytes(9000))...)
		x.Tail = xdr.AppendUint32(nil, 77)
		e.onCall = func() {
			read, written := w.exposedBytes(t)
			assert.Empty(t, written)
			if assert.Len(t, read, 1) {
				end := append(x.Args, x.Tail...)
				header := len(read[0]) - len(end)
				assert.LessOrEqual(t, header, maxCallHeader)
				assert.Equal(t, end, read[0][max(header, 0):])
			}
		}
		require.NoError(t, c.Call(t.Context(), x))
		x.Release()
		assert.Empty(t, w.live)
	})
}

// TestClientRevokesFirst checks that a reply is read only when the server can
// no longer change it: a last-moment change is visible to the requester
// (R5042-6.2.2-1, R8166-4.4.1-1).
func TestClientRevokesFirst(t *testing.T) {
	withClientConn(t, &Server{}, ClientConnConfig{}, func(t *testing.T, c *ClientConn, _ *echoProgram, _ *memDialer) {
		require.NoError(t, callEcho(t.Context(), c, 0, 9000, 0))
		w := watchConn(c)
		w.onEnd = func(e *exposure) {
			const acceptStat = 5*4 + 3 // offset in a reply, in bytes
			e.mem[acceptStat] = 1
		}
		assert.ErrorIs(t, callEcho(t.Context(), c, 0, 9000, 0), oncrpc.ErrProgUnavail)
	})
}

// TestServerExposesNothing checks that a server exposes no memory: it reads
// arguments and writes results itself (R5042-App.A-1, R5042-App.A-2,
// R8166-8.1-1).
func TestServerExposesNothing(t *testing.T) {
	p := new(tapListener)
	withTappedServer(t, &Server{Handler: fixedResults("", patternBytes(9000), "")}, p, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		var l chunks.Lists
		into, mem := q.writeChunk(9000)
		l.AddWrite(into)
		l.Reads = q.readSegments(40, patternBytes(9000))
		q.sendCall(newMsg(l), rpcCall(testXID, ""))
		q.onlyAnswer()
		assert.Equal(t, patternBytes(9000), mem)
		assert.Zero(t, p.registered)
	})
}
