package rpcrdma

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestClientPrivateData checks that a requester sends Linux's client's private
// data (R8797-4-3, R8797-4-5, R8797-4-6, R8797-4-7, R8797-4-8), and that all
// its STags may be invalidated: each belongs to one call (R8797-3.2-2). The
// message fits any lower layer's private data, and can be left out (R8797-4-4).
func TestClientPrivateData(t *testing.T) {
	withFakeServer(t, knfsd, ClientConnConfig{}, func(t *testing.T, _ *ClientConn, p *fakeServer) {
		assert.Equal(t, wiretest.Hex(t, "../cmpriv/testdata/linux-client.hex"), p.offered)
		const leastCapacity = 56 // InfiniBand's connection manager, through rdma_cm
		assert.LessOrEqual(t, len(p.offered), leastCapacity)
	})
	withFakeServer(t, knfsd, ClientConnConfig{Inline: 65536 + 500}, func(t *testing.T, _ *ClientConn, p *fakeServer) {
		assert.Equal(t, []byte{0xf6, 0xab, 0x0e, 0x18, 1, 1, 63, 63}, p.offered)
	})
	withFakeServer(t, knfsd, ClientConnConfig{NoPrivateData: true}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		assert.Empty(t, p.offered)
		send, recv := c.Thresholds()
		assert.Equal(t, []int{1024, 1024}, []int{send, recv}, "R8797-5.1-1: the server knows no better")
	})
}

// TestClientThresholds checks that each direction has its own threshold, the
// lesser of one end's send size and the other's receive size (R8797-3.1-1,
// R8797-4.2-3, R8797-4.2-4, R8166-3.3.2-1), whatever else the server's private
// data contains.
func TestClientThresholds(t *testing.T) {
	message := func(send, recv int) string {
		return string(cmpriv.Message{SendSize: send, RecvSize: recv}.AppendTo(nil))
	}
	for _, tt := range []struct {
		name       string
		inline     int
		private    string
		send, recv int
	}{
		{"R8797-3.1-3 R8797-5-1 R8166-3.3.3-5 none", 4096, "", 1024, 1024},
		{"R8797-5.2-2 foreign", 4096, "\x00\x00\x00\x01another protocol's", 1024, 1024},
		{"R8797-5.2-3 R8797-6-1 version 2", 4096, "\xf6\xab\x0e\x18\x02\x01\x03\x03", 1024, 1024},
		{"R8797-5.2-3 R8797-5.1-1 cut short", 4096, "\xf6\xab\x0e\x18\x01\x01\x03", 1024, 1024},
		{"Linux's", 4096, string(knfsd), 4096, 4096},
		{"R8797-4-9 reserved bits", 4096, "\xf6\xab\x0e\x18\x01\xfe\x03\x03", 4096, 4096},
		{"R8797-4.2-2 the least", 4096, message(1024, 1024), 1024, 1024},
		{"the server receives less than it sends", 8192, message(8192, 2048), 2048, 8192},
		{"the server sends less than it receives", 8192, message(2048, 8192), 8192, 2048},
		{"the server has more", 2048, message(262144, 65536), 2048, 2048},
		{"R8797-4.2-1 both at the limit", 262144, message(262144, 262144), 262144, 262144},
		{"R8797-5.2-1 behind a byte", 4096, "x" + message(2048, 3072), 3072, 2048},
		{"R8797-5.2-1 behind three, with more behind it", 4096, "\xf6\xab\x0e" + message(2048, 3072) + "\xf6\xab\x0e\x18", 3072, 2048},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withFakeServer(t, []byte(tt.private), ClientConnConfig{Inline: tt.inline}, func(t *testing.T, c *ClientConn, p *fakeServer) {
				for range 2 { // R8797-4-2: from the set-up to the end
					send, recv := c.Thresholds()
					assert.Equal(t, tt.send, send)
					assert.Equal(t, tt.recv, recv)
					p.requireSuccess(c)
				}
			})
		})
	}
}

// TestAsymmetry checks that a call and results as long as their thresholds
// travel inline, and that one byte more does not (R8797-3.1-2, R8166-4.2.4-5).
func TestAsymmetry(t *testing.T) {
	for _, tt := range []struct{ send, recv int }{{1024, 4096}, {4096, 1024}, {3072, 2048}} {
		private := cmpriv.Message{SendSize: tt.recv, RecvSize: tt.send}.AppendTo(nil)
		withFakeServer(t, private, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
			p.requireSuccess(c)
			for _, over := range []int{0, 4} {
				x := &oncrpc.Exchange{Args: rampBytes(tt.send - wire.MinLen - callLen + over)}
				y := &oncrpc.Exchange{MaxResults: tt.recv - wire.MinLen - oncrpc.MaxReplyHeader + over}
				for _, x := range []*oncrpc.Exchange{x, y} {
					done := startCall(t.Context(), c, x)
					h := p.onlyCall()
					assert.Equal(t, over > 0, h.Proc == wire.NoMsg || h.Lists.HasReply, "%v over by %d", tt, over)
					p.sendReply(h, wire.Header{})
					require.NoError(t, callError(t, done))
					x.Release()
				}
			}
		})
	}
}

// TestClientReplays changes the server's sizes with each connection. It checks
// that repeated calls use the new sizes: the same XID, in another form, with
// the new connection's STags; the old STags are dead (R8797-4-1).
func TestClientReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := buf.Default.Out()
		l := rdmatest.Listen(t)
		var p *fakeServer
		accept := func(size int) {
			p = &fakeServer{t: t, ready: make(chan struct{})}
			go p.acceptConn(l, cmpriv.Message{SendSize: size, RecvSize: size}.AppendTo(nil), 100)
		}
		accept(65536)
		d := &watchingDialer{memDialer: memDialer{l: l}}
		line, err := Dial(t.Context(), d, "", ClientConfig{Conn: ClientConnConfig{Inline: 65536}, Log: testLog(t)})
		require.NoError(t, err)
		x := &oncrpc.Exchange{Prog: 1, Vers: 2, Proc: 3, Args: xdr.AppendUint32(nil, 9001), Item: rampBytes(9001), MaxResults: 8, Sink: make([]byte, 70000)}
		done := startCall(t.Context(), line, x)
		first := p.onlyCall()
		assert.Equal(t, form{write: 70000}, formOf(first))
		message := p.wholeMessage(first)
		time.Sleep(steadyTime)
		for i, tt := range []struct {
			size int
			want form
		}{
			{4096, form{read: 9001, write: 70000}},
			{262144, form{write: 70000}},
			{1024, form{read: 9001, write: 70000}},
		} {
			old := p
			old.Abort(errors.New("cable cut"))
			accept(tt.size)
			time.Sleep(maxPause)
			null := p.onlyCall() // the NULL call
			assert.EqualValues(t, 0, null.body[23], "procedure")
			p.sendReply(null, wire.Header{})
			h := p.onlyCall()
			assert.Equal(t, first.XID, h.XID, i)
			assert.Equal(t, tt.want, formOf(h), i)
			assert.Equal(t, message, p.wholeMessage(h), i)
			p.writeMemory(h.Lists.Write(0)[0], rampBytes(7))
			time.Sleep(steadyTime)
			assert.Empty(t, d.conns[i].live, "of the old connection")
			assert.Len(t, d.conns[i+1].live, len(h.Lists.Reads)+h.Lists.Writes())
			if i < 2 {
				continue
			}
			h.Lists.Reads = nil
			h.Lists.Write(0)[0].Length = 7
			p.sendReply(h, wire.Header{Lists: h.Lists}, 0, 0, 0, 7)
		}
		require.NoError(t, callError(t, done))
		assert.Equal(t, rampBytes(7), x.Results.Item(70000))
		x.Release()
		require.NoError(t, line.Close())
		synctest.Wait()
		assert.Equal(t, before, buf.Default.Out(), "buffers lent")
	})
}

// A watchingDialer is a dialer that records its connections' exposed memory.
type watchingDialer struct {
	memDialer
	conns []*watchedConn
}

func (w *watchingDialer) Dial(ctx context.Context, addr string, cfg rdma.ConnConfig) (rdma.Conn, error) {
	c, err := w.memDialer.Dial(ctx, addr, cfg)
	if err != nil {
		return nil, err
	}
	w.conns = append(w.conns, &watchedConn{Conn: c, live: make(map[*exposure]bool)})
	return w.conns[len(w.conns)-1], nil
}
