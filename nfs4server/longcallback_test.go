package nfs4server

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// messageLen returns the length in bytes of a callback, with the header of RPC.
func messageLen(x *oncrpc.Exchange) uint32 {
	return uint32(len(oncrpc.AppendCall(nil, 0, x, "")) + len(x.Args))
}

// recallBy has another client recall the delegation of a file from g, which returns it
// by the session own.
func (g *rig) recallBy(own *rig, back *backchannel, put step, d nfs4.StateID) {
	g.t.Helper()
	back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) { assert.Equal(g.t, nfs4.OK, own.give(put, d)) }
	o, _ := g.clientAt("other", "192.0.2.2:700")
	require.Equal(g.t, nfs4.OK, o.put(put, nfs4.AnonymousStateID, "x"))
}

// TestLongRecall checks that CB_RECALL is as long as the client's backchannel permits:
// with the call that it refers to if that fits, otherwise without.
//
// R8881-18.36.3-7.
func TestLongRecall(t *testing.T) {
	var whole uint32
	for _, less := range []uint32{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			g, back := delegRig(t)
			if less > 0 {
				g.s.state.Session(g.session).Back.MaxRequestSize = whole + 1 - less
			}
			g.file("f")
			d, put := g.delegated("f")
			g.recallBy(g, back, put, d.StateID)
			require.Equal(t, 1, back.count())
			n, referring := messageLen(&back.last), len(back.seqs[0].Referring)
			switch less {
			case 0:
				whole = n
				fallthrough
			case 1:
				assert.Equal(t, 1, referring)
				assert.Equal(t, whole, n)
			default:
				assert.Zero(t, referring)
				assert.Less(t, n, whole)
			}
		})
	}
}

// TestLongNotice checks that a notice of a free lock which is too long for the client's
// backchannel is given up, and leaves the slots alone; and that the recall which follows
// comes.
//
// R8881-18.36.3-7.
func TestLongNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := delegRig(t)
		g.callbacks = 400
		back := g.callable("short", "192.0.2.1:700")
		told := back.notices()
		opened, put := g.openFile("f", nfs4.ShareBoth, 0)
		held, st := g.waitLock(put, opened.StateID, nfs4.LockWriteWait, "holder")
		require.Equal(t, nfs4.OK, st)
		_, st = g.waitLock(put, opened.StateID, nfs4.LockWriteWait, strings.Repeat("w", 300))
		require.Equal(t, nfs4.ErrDenied, st)
		g.unlockAll(put, held)
		synctest.Wait()
		assert.Empty(t, told)
		var tries atomic.Int32
		notice := nfs4.CBNotifyLockArgs{Object: fhOf(put), Owner: nfs4.StateOwner{Owner: make([]byte, 300)}}
		g.s.callbacks.add(&callback{
			client: g.s.state.Session(g.session).ClientID(), op: nfs4.CBOpNotifyLock, args: &notice, hint: true,
			wanted: func() bool { tries.Add(1); return true },
		})
		time.Sleep(time.Minute)
		assert.EqualValues(t, 1, tries.Load())
		g.file("delegated")
		d, put := g.delegated("delegated")
		g.recallBy(g, back, put, d.StateID)
		assert.EqualValues(t, 1, back.seqs[0].Sequence)
	})
}

// TestLongQuestion checks that nobody waits for the answer of a client which cannot be
// asked for the size of a file, because CB_GETATTR is too long for its backchannel; and
// that a recall which is too long for one session comes by another one. Neither is a fault of the
// backchannel.
//
// R8881-18.36.3-7.
func TestLongQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := writeRig(t)
		put := g.file("f")
		opened, _ := g.writing("f")
		s := g.s.state.Session(g.session)
		c := callback{op: nfs4.CBOpGetAttr, args: &nfs4.CBGetAttrArgs{Object: fhOf(put), Request: nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrSize)}}
		s.Back.MaxRequestSize = uint32(c.length(&nfs4state.BackPath{Session: s}, nil) - 1) // CREATE_SESSION refuses that, because CB_RECALL is longer
		back.getattr = func(context.Context, nfs4.CBGetAttrArgs) (res nfs4.GetAttrRes, _ error) {
			t.Error("the client was asked")
			return res, nil
		}
		o, _ := g.clientAt("other", "192.0.2.2:700")
		start := time.Now()
		_, st := o.stat(put)
		assert.Equal(t, nfs4.ErrDelay, st)
		assert.Equal(t, time.Second, time.Since(start), "the time of the recall alone")
		assert.Zero(t, back.count())
		var seq nfs4.SequenceRes
		g.seq++
		st, _ = g.raw(step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq}, &seq})
		require.Equal(t, nfs4.OK, st)
		assert.Zero(t, seq.Flags&nfs4.SeqBackchannelFault)

		// Another session of the client can take the recall.
		own := *g
		own.noReclaims = true
		other := own.callable("client", "192.0.2.1:701")
		other.getattr = func(context.Context, nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) {
			return nfs4.GetAttrRes{Status: nfs4.ErrBadHandle}, nil
		}
		other.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
			assert.Equal(t, nfs4.OK, own.give(put, opened.Delegation.StateID))
		}
		attrs, st := o.stat(put)
		assert.Equal(t, nfs4.OK, st)
		assert.EqualValues(t, 5, attrs.Size)
		assert.Equal(t, 1, other.count())
	})
}
