package oncrpc

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// noMemory is how several answers if there is no memory.
const noMemory = rpcmsg.AuthError(77)

// serveSeveral answers with data items of the lengths in its arguments, the number
// of the items behind each one, and the results' end.
func serveSeveral(_ context.Context, c *Call, r *Reply) error {
	n := 0
	for c.Args.Left() > 0 {
		size := int(c.Args.Uint32())
		var item []byte
		if n == 0 {
			r.Head = xdr.AppendUint32(r.Head, uint32(size))
			item = r.NewItem(size)
		} else {
			var ok bool
			if item, ok = r.AddItem(size); !ok {
				return noMemory
			}
			before := xdr.AppendUint32(appendWords(uint32(n)), uint32(size))
			if n == 1 {
				r.Tail = before
			} else {
				r.More[n-2].Tail = before
			}
		}
		for i := range item {
			item[i] = byte(n + i)
		}
		n++
	}
	return c.Args.Done()
}

func severalReply(xid uint32, sizes ...uint32) []byte {
	b := rpcmsg.AppendAccepted(nil, xid, rpcmsg.Success)
	for n, size := range sizes {
		if n > 0 {
			b = xdr.AppendUint32(b, uint32(n))
		}
		item := make([]byte, size)
		for i := range item {
			item[i] = byte(n + i)
		}
		b = xdr.AppendOpaque(b, item)
	}
	return b
}

// TestServerItems checks replies with several data items over TCP, of all
// paddings, and that their memory is counted and released.
func TestServerItems(t *testing.T) {
	m := new(Mux)
	m.Register(testProg, 2, handlerFunc(serveSeveral))
	s := &Server{Handler: m}
	nc := startServer(t, s).dialServer()
	for xid, sizes := range [][]uint32{{1}, {1, 2}, {0, 0, 0}, {3, 4097, 5}, {300_000, 300_001, 300_002}, {}} {
		_, err := nc.Write(newRecord(newCallMessage(uint32(xid), testProg, 2, 1, appendWords(sizes...)...)))
		require.NoError(t, err)
		assert.Equal(t, severalReply(uint32(xid), sizes...), readRecord(t, nc))
	}
}

// TestServerItemsMemory checks that a call does not wait for the memory of a
// second item while it holds the first.
func TestServerItemsMemory(t *testing.T) {
	m := &Mux{Log: discardLogger()}
	m.Register(testProg, 2, handlerFunc(serveSeveral))
	s := &Server{Handler: m}
	r := startServer(t, s)
	others := [...]*fairshare.Part{s.replyMemory.Part(), s.replyMemory.Part()}
	taken := [...]int64{partyMemoryLimit, memoryLimit - partyMemoryLimit - int64(buf.Size(100_000))}
	for i, p := range others {
		require.True(t, p.TryAcquire(taken[i]))
	}
	nc := r.dialServer()
	for _, sizes := range [][]uint32{{10, 100_000}, {10, 100_000, 100_000}} {
		_, err := nc.Write(newRecord(newCallMessage(1, testProg, 2, 1, appendWords(sizes...)...)))
		require.NoError(t, err)
		want := severalReply(1, sizes...)
		if len(sizes) > 2 {
			want = rpcmsg.AppendAuthError(nil, 1, noMemory)
		}
		assert.Equal(t, want, readRecord(t, nc))
	}
	for i, p := range others {
		p.Release(taken[i])
	}
}

// TestServerItemAfterHead checks that a long head stays counted when the handler
// makes an item, or reserves a little more, after it.
func TestServerItemAfterHead(t *testing.T) {
	const long = 300_000
	for name, then := range map[string]func(r *Reply){
		"short item":   func(r *Reply) { r.Head = xdr.AppendUint32(r.Head, 10); r.NewItem(10) },
		"long item":    func(r *Reply) { r.Head = xdr.AppendUint32(r.Head, long); r.NewItem(long) },
		"short head":   func(r *Reply) { r.Reserve(10) },
		"another long": func(r *Reply) { r.Reserve(long) },
	} {
		t.Run(name, func(t *testing.T) {
			m := new(Mux)
			s := &Server{Handler: m}
			var held atomic.Int64
			m.Register(testProg, 2, handlerFunc(func(_ context.Context, _ *Call, r *Reply) error {
				r.Reserve(long)
				r.Head = append(r.Head, make([]byte, long)...)
				then(r)
				held.Store(s.replyMemory.InUse())
				return nil
			}))
			nc := startServer(t, s).dialServer()
			_, err := nc.Write(newRecord(newCallMessage(1, testProg, 2, 1)))
			require.NoError(t, err)
			readRecord(t, nc)
			assert.GreaterOrEqual(t, held.Load(), int64(long))
		})
	}
}

// TestMuxItems checks that a length word in front of any item which is not the
// item's length is a fault of the program.
func TestMuxItems(t *testing.T) {
	for _, tails := range [][2]uint32{{3, 4}, {4, 3}, {3, 3}} {
		m := &Mux{Log: discardLogger()}
		m.Register(testProg, 2, handlerFunc(func(_ context.Context, _ *Call, r *Reply) error {
			r.Head = xdr.AppendUint32(r.Head, 2)
			r.NewItem(2)
			for i, n := range tails {
				if i == 0 {
					r.Tail = appendWords(n)
				} else {
					r.More[i-1].Tail = appendWords(n)
				}
				r.AddItem(4)
			}
			return nil
		}))
		var rep Reply
		m.Serve(t.Context(), &Request{Msg: newCallMessage(1, testProg, 2, 1), Peer: new(Peer), MaxReply: 4096}, &rep)
		assert.Equal(t, rpcmsg.AppendAccepted(nil, 1, rpcmsg.SystemErr), rep.Head)
		assert.Zero(t, buf.Default.Out())
	}
}
