package replay

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/stretchr/testify/assert"
)

// TestAlike checks which of two calls that are alike is a retransmission: clients of one
// host do not coordinate their XIDs.
func TestAlike(t *testing.T) {
	lost := false
	alive := func() *oncrpc.Connection { return oncrpc.NewConnection(func() bool { return lost }) }
	ended := func() *oncrpc.Connection { c := alive(); c.End(); return c }
	for _, tt := range []struct {
		name           string
		before, now    *oncrpc.Connection
		network, from  string
		lost, repeated bool
		local          string
	}{
		{"another connection", alive(), alive(), "tcp", "192.0.2.1:701", false, false, ""},
		{"another transport", alive(), alive(), "rdma", "192.0.2.1:700", false, false, ""},
		{"the first has ended", ended(), alive(), "tcp", "192.0.2.1:701", false, true, ""},
		{"the first has ended, another transport", ended(), alive(), "rdma", "192.0.2.1:701", false, true, ""},
		{"the first is given up", alive(), alive(), "tcp", "192.0.2.1:701", true, true, ""},
		{"the same port", alive(), alive(), "tcp", "192.0.2.1:700", false, true, ""},
		{"no port is known", alive(), alive(), "tcp", "192.0.2.1:0", false, false, ""},
		{"no connections, the same port", nil, nil, "tcp", "192.0.2.1:700", false, true, ""},
		{"no connections, another port", nil, nil, "tcp", "192.0.2.1:701", true, false, ""},
		{"the same port, to another address of the server", alive(), alive(), "tcp", "192.0.2.1:700", false, false, "192.0.2.10:2049"},
		{"the same port, to another port of the server", alive(), alive(), "tcp", "192.0.2.1:700", false, false, "192.0.2.9:20049"},
		{"the first has ended, to another address of the server", ended(), alive(), "tcp", "192.0.2.1:701", false, true, "192.0.2.10:2049"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lost = tt.lost
			c := newReplay(t, new(countingProgram), Config{})
			first := "192.0.2.1:700"
			if tt.from == "192.0.2.1:0" {
				first = tt.from
			}
			assert.Equal(t, makeReply(9, 1), answerOf(c, t.Context(), withConn(tt.before, madeBy(first, 9, nil))))
			again := withConn(tt.now, madeBy(tt.from, 9, nil))
			again.Peer.Network = tt.network
			if tt.local != "" {
				again.Peer.Local = netip.MustParseAddrPort(tt.local)
			}
			want := makeReply(9, 2)
			if tt.repeated {
				want = makeReply(9, 1)
			}
			for range 2 {
				assert.Equal(t, want, answerOf(c, t.Context(), again))
			}
			checkStore(t, c)
		})
	}
}

// TestAlikeOwners checks that a reply belongs to the connection on which it was repeated
// last, and that each client keeps its own.
func TestAlikeOwners(t *testing.T) {
	m := new(countingProgram)
	c := newReplay(t, m, Config{})
	a, b := oncrpc.NewConnection(nil), oncrpc.NewConnection(nil)
	call := func(conn *oncrpc.Connection, port string) []byte {
		return answerOf(c, t.Context(), withConn(conn, madeBy("192.0.2.1:"+port, 9, nil)))
	}
	assert.Equal(t, makeReply(9, 1), call(a, "700"))
	assert.Equal(t, makeReply(9, 2), call(b, "701"))
	assert.Equal(t, makeReply(9, 1), call(a, "700"))
	assert.Equal(t, makeReply(9, 2), call(b, "701"))
	a.End()
	a2 := oncrpc.NewConnection(nil)
	assert.Equal(t, makeReply(9, 1), call(a2, "702"), "of a, not of b")
	assert.Equal(t, makeReply(9, 3), call(oncrpc.NewConnection(nil), "703"), "another client")
	checkStore(t, c)
}

// TestAlikeRunning checks that a call is executed concurrently with the running call of
// another client that is alike.
func TestAlikeRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		m := &countingProgram{make: func(context.Context, *oncrpc.Call, *oncrpc.Reply) { <-gate }}
		c := newReplay(t, m, Config{})
		for _, port := range []string{"700", "701"} {
			go answerOf(c, t.Context(), withConn(oncrpc.NewConnection(nil), madeBy("192.0.2.1:"+port, 9, nil)))
			synctest.Wait()
		}
		assert.EqualValues(t, 2, m.executed)
		close(gate)
		synctest.Wait()
		checkStore(t, c)
	})
}

// TestAlikeBound checks that the connections of one host cannot make the search for a
// call long.
func TestAlikeBound(t *testing.T) {
	c := newReplay(t, new(countingProgram), Config{MaxMemory: 40 * 400})
	for range 100 {
		answerOf(c, t.Context(), withConn(oncrpc.NewConnection(nil), withPort(madeBy("192.0.2.1:700", 9, nil))))
		n := 0
		for _, e := range c.calls {
			for ; e != nil; e = e.alike {
				n++
			}
		}
		assert.LessOrEqual(t, n, maxAlike)
		assert.LessOrEqual(t, c.Stats().Bytes, c.cfg.MaxMemory)
	}
}

// withPort gives a call a port of its own.
func withPort(req *oncrpc.Request) *oncrpc.Request {
	ports++
	a := req.Peer.Addr
	req.Peer.Addr = netip.AddrPortFrom(a.Addr(), ports)
	return req
}

var ports uint16

// TestLongReply checks that long replies and data items are kept: a COMPOUND of NFSv4.0
// can remove a name and then read an attribute or a file.
func TestLongReply(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(r *oncrpc.Reply)
		item int
	}{
		{"long", func(r *oncrpc.Reply) { r.Head = append(r.Head, make([]byte, 20_000)...) }, -1},
		{"data item", func(r *oncrpc.Reply) {
			r.Head = xdr.AppendUint32(r.Head, 5)
			copy(r.NewItem(5), "items")
			r.Tail = []byte("tail")
		}, 5},
		{"empty item", func(r *oncrpc.Reply) { r.Head = xdr.AppendUint32(r.Head, 0); r.NewItem(0) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				m := &countingProgram{make: func(_ context.Context, _ *oncrpc.Call, r *oncrpc.Reply) {
					<-gate
					assert.False(t, r.Mappable, "the item must be copied")
					tt.make(r)
				}}
				c := newReplay(t, m, Config{})
				got := make(chan []byte, 3)
				serve := func() {
					rep := oncrpc.Reply{Mappable: true}
					assert.True(t, c.Serve(t.Context(), madeBy("192.0.2.1:700", 9, nil), &rep))
					assert.Equal(t, tt.item >= 0, rep.Item != nil)
					got <- bytesOf(&rep)
				}
				go serve()
				synctest.Wait()
				go serve() // waits for the first
				synctest.Wait()
				close(gate)
				synctest.Wait()
				serve()
				first := <-got
				assert.Equal(t, first, <-got)
				assert.Equal(t, first, <-got)
				assert.EqualValues(t, 1, m.executed)
				checkStore(t, c)
				assert.Zero(t, buf.Default.Out())
			})
		})
	}
}
