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
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// messageLen returns a callback's length in bytes, with the RPC header.
func messageLen(x *oncrpc.Exchange) uint32 {
	return uint32(len(oncrpc.AppendCall(nil, 0, x, "")) + len(x.Args))
}

// recallThrough lets another client recall a file's delegation from g, which returns it through
// the session own.
func (g *testServer) recallThrough(own *testServer, back *fakeBackchannel, put step, d nfs4.StateID) {
	g.t.Helper()
	back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
		assert.Equal(g.t, nfs4.OK, own.returnDelegation(put, d))
	}
	o, _ := g.newClientAt("other", "192.0.2.2:700")
	require.Equal(g.t, nfs4.OK, o.writeAtStart(put, nfs4.AnonymousStateID, "x"))
}

// TestLongRecall checks that CB_RECALL is as long as the client's backchannel permits:
// with the call that it refers to if that fits, otherwise without.
//
// R8881-18.36.3-7.
func TestLongRecall(t *testing.T) {
	var whole uint32
	for _, less := range []uint32{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			g, back := newDelegServer(t)
			if less > 0 {
				g.s.state.Session(g.session).Back.MaxRequestSize = whole + 1 - less
			}
			g.makeFileStep("f")
			d, put := g.openDelegated("f")
			g.recallThrough(g, back, put, d.StateID)
			require.Equal(t, 1, back.callCount())
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

// TestLongNotice checks that a lock notification that is too long for the client's backchannel
// is dropped, and does not affect the slots; and that the recall that follows arrives.
//
// R8881-18.36.3-7.
func TestLongNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := newDelegServer(t)
		g.callbacks = 400
		back := g.newCallableClient("short", "192.0.2.1:700")
		told := back.lockNotices()
		opened, put := g.openFile("f", nfs4.ShareBoth, 0)
		held, st := g.lockWaiting(put, opened.StateID, nfs4.LockWriteWait, "holder")
		require.Equal(t, nfs4.OK, st)
		_, st = g.lockWaiting(put, opened.StateID, nfs4.LockWriteWait, strings.Repeat("w", 300))
		require.Equal(t, nfs4.ErrDenied, st)
		g.unlockAll(put, held)
		synctest.Wait()
		assert.Empty(t, told)
		var tries atomic.Int32
		notice := nfs4.CBNotifyLockArgs{Object: handleInStep(put), Owner: nfs4.StateOwner{Owner: make([]byte, 300)}}
		g.s.callbacks.enqueue(&callback{
			client: g.s.state.Session(g.session).ClientID(), op: nfs4.CBOpNotifyLock, args: &notice, isHint: true,
			isWanted: func() bool { tries.Add(1); return true },
		})
		time.Sleep(time.Minute)
		assert.EqualValues(t, 1, tries.Load())
		g.makeFileStep("delegated")
		d, put := g.openDelegated("delegated")
		g.recallThrough(g, back, put, d.StateID)
		assert.EqualValues(t, 1, back.seqs[0].Sequence)
	})
}

// TestLongQuestion checks that no call waits for a reply from a client that cannot be queried
// for a file's size, because CB_GETATTR is too long for its backchannel; and that a recall that
// is too long for one session uses another one. Neither is a backchannel fault.
//
// R8881-18.36.3-7.
func TestLongQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newWriteDelegServer(t)
		put := g.makeFileStep("f")
		opened, _ := g.openForWriting("f")
		s := g.s.state.Session(g.session)
		c := callback{op: nfs4.CBOpGetAttr, args: &nfs4.CBGetAttrArgs{Object: handleInStep(put), Request: nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrSize)}}
		s.Back.MaxRequestSize = uint32(c.messageLen(&nfs4state.BackPath{Session: s}, nil) - 1) // CREATE_SESSION refuses that, because CB_RECALL is longer
		back.getattr = func(context.Context, nfs4.CBGetAttrArgs) (res nfs4.GetAttrRes, _ error) {
			t.Error("the client was asked")
			return res, nil
		}
		o, _ := g.newClientAt("other", "192.0.2.2:700")
		start := time.Now()
		_, st := o.statStep(put)
		assert.Equal(t, nfs4.ErrDelay, st)
		assert.Equal(t, time.Second, time.Since(start), "the time of the recall alone")
		assert.Zero(t, back.callCount())
		var seq nfs4.SequenceRes
		g.seq++
		st, _ = g.sendRaw(step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq}, &seq})
		require.Equal(t, nfs4.OK, st)
		assert.Zero(t, seq.Flags&nfs4.SeqBackchannelFault)

		// Another session of the client can carry the recall.
		own := *g
		own.noReclaims = true
		other := own.newCallableClient("client", "192.0.2.1:701")
		other.getattr = func(context.Context, nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) {
			return nfs4.GetAttrRes{Status: nfs4.ErrBadHandle}, nil
		}
		other.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
			assert.Equal(t, nfs4.OK, own.returnDelegation(put, opened.Delegation.StateID))
		}
		attrs, st := o.statStep(put)
		assert.Equal(t, nfs4.OK, st)
		assert.EqualValues(t, 5, attrs.Size)
		assert.Equal(t, 1, other.callCount())
	})
}
