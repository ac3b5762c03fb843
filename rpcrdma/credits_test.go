package rpcrdma

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
)

// R8166-3.3.1-2, R8166-3.3.1-4, R8166-3.3.3-1: whatever a call asks for, each
// reply, errors included, grants what the server was told.
func TestGrant(t *testing.T) {
	for credits, want := range map[int]uint32{0: 128, 1: 1, 4096: 4096} {
		serve(t, &Server{Handler: null, Credits: credits}, func(t *testing.T, r *rig) {
			q := r.dialLinux()
			for _, asked := range []uint32{0, 1, 0xffffffff} {
				h := Header{XID: testXID, Vers: Version, Credit: asked}
				q.send(h.AppendTo(nil), rpcCall(testXID, ""))
				assert.Equal(t, want, q.answer().Credit)
				h.Proc = MsgP
				q.send(h.AppendTo(nil), make([]byte, 12))
				assert.Equal(t, want, q.answer().Credit)
			}
		})
	}
}

// R8166-3.3.1-6: the receive that a call took is back before its reply can be,
// in each way that a call can end.
func TestReceiveBeforeReply(t *testing.T) {
	var p tap
	serveTap(t, &Server{Handler: results("", repeat(5000), ""), Credits: 2}, &p, func(t *testing.T, r *rig) {
		q := r.dialLinux()
		posted := r.only().Recvs()
		assert.Equal(t, 2+extraRecvs, posted)
		write, _ := q.writable(5000)
		var l chunks.Lists
		l.AddWrite(write)
		q.call(msg(l), rpcCall(testXID, ""))
		q.call(msg(chunks.Lists{}), rpcCall(testXID, "")) // no room: ERR_CHUNK
		q.call(msg(chunks.Lists{}), rpcCall(testXID+1, ""))
		q.call(noMsg(chunks.Lists{}), nil)
		require.Len(t, q.answers(), 4)
		assert.Equal(t, posted, r.only().Recvs())
		for _, used := range p.recvs {
			assert.Less(t, used, 4, "one is back before each answer")
		}
		assert.Zero(t, p.recvs[3])
	})
}

// As many calls as are granted run at once, and some more for a peer that
// counts differently. Beyond that the provider ends the connection.
func TestOverrun(t *testing.T) {
	g := new(gate)
	serve(t, &Server{Handler: g, Credits: 4}, func(t *testing.T, r *rig) {
		g.open = make(chan struct{})
		q := r.dialLinux()
		for range 4 + extraRecvs {
			q.call(msg(chunks.Lists{}), rpcCall(testXID, ""))
		}
		assert.Equal(t, 4+extraRecvs, g.count())
		require.Empty(t, q.ended())
		q.call(msg(chunks.Lists{}), rpcCall(testXID, ""))
		assert.Empty(t, q.answers())
		require.Len(t, q.ended(), 1)
		assert.ErrorIs(t, q.ended()[0], rdmatest.ErrNoRecv)
		close(g.open)
	})
}

// A peer that sends calls and takes no replies gets no more receives when
// twice its grant is under way: the replies cannot pile up.
func TestRepliesNotTaken(t *testing.T) {
	serve(t, &Server{Handler: null, Credits: 4}, func(t *testing.T, r *rig) {
		q := r.dialLinux()
		resume := q.Pause()
		sent := 0
		for range 1000 {
			if r.only().Recvs() == 0 {
				break
			}
			q.call(msg(chunks.Lists{}), rpcCall(testXID, ""))
			sent++
			assert.Empty(t, q.answers())
		}
		// What the provider has on its way counts as sent.
		assert.Less(t, sent, 60)
		assert.Zero(t, r.only().Recvs())

		resume()
		assert.Len(t, q.answers(), sent, "none is lost")
		assert.Equal(t, 4+extraRecvs, r.only().Recvs(), "and what was owed is given back")
	})
}
