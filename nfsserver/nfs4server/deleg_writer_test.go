package nfs4server

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// newWriteDelegServer is a newDelegServer that grants write delegations.
func newWriteDelegServer(t *testing.T) (*testServer, *fakeBackchannel) {
	g, back := newDelegServer(t)
	g.s.writeDelegations = true
	return g, back
}

// openForWriting opens a file with content for writing, and requires a delegation.
func (g *testServer) openForWriting(name string) (nfs4.OpenRes, step) {
	g.t.Helper()
	opened, put := g.openFile(name, nfs4.ShareBoth, 0)
	require.Equal(g.t, nfs4.DelegateWrite, opened.Delegation.Type)
	return opened, put
}

// writeAtStart writes data at the start of a step's file, with a stateid.
func (g *testServer) writeAtStart(put step, id nfs4.StateID, data string) nfs4.Status {
	g.t.Helper()
	st, _ := g.sendSteps(put.withNewResults(), step{nfs4.OpWrite, &nfs4.WriteArgs{StateID: id, Data: []byte(data)}, new(nfs4.WriteRes)})
	return st
}

// statStep returns GETATTR for size, change and time_modify.
func (g *testServer) statStep(put step) (nfs4.Attrs, nfs4.Status) {
	g.t.Helper()
	var res nfs4.GetAttrRes
	st, _ := g.sendSteps(put.withNewResults(), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrChange, nfs4.AttrTimeModify)}, &res})
	return res.Attrs, st
}

// anotherSession returns g with another session for the same client, for calls while g replies
// to callbacks.
func (g *testServer) anotherSession(owner string) *testServer {
	own := *g
	own.noReclaims, own.flags = true, 0
	own.sessionAs(owner)
	return &own
}

// TestWriteDelegation checks what comes with a write delegation, and what its
// stateid is good for.
//
// R8881-10.4-1, R8881-10.4-4, R8881-10.4.1-2, R8881-10.2.1-4.
func TestWriteDelegation(t *testing.T) {
	g, back := newWriteDelegServer(t)
	opened, put := g.openFile("f", nfs4.ShareBoth, 0)
	d := opened.Delegation
	require.Equal(t, nfs4.DelegateWrite, d.Type)
	assert.Equal(t, nfs4.ACE{Who: []byte{}}, d.Permissions)
	var fs nfs4.GetAttrRes
	st, _ := g.sendSteps(put, step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrSpaceAvail)}, &fs})
	require.Equal(t, nfs4.OK, st)
	free := int64(fs.Attrs.SpaceAvail)
	assert.Equal(t, nfs4.SpaceLimit{Blocks: true, NumBlocks: uint32(free / 16 / 4096), BlockBytes: 4096}, d.Limit)
	other, _ := g.openFile("g", nfs4.ShareWrite, 0)
	require.Equal(t, nfs4.DelegateWrite, other.Delegation.Type)
	free -= int64(d.Limit.NumBlocks) * 4096
	assert.InDelta(t, free/16/4096, other.Delegation.Limit.NumBlocks, 2, "what the first may write is kept for it")
	assert.Equal(t, nfs4.OK, g.closeFile(put.args.(*nfs4.HandleArgs).Object, opened.StateID))

	require.Equal(t, nfs4.OK, g.writeAtStart(put, d.StateID, "hello"))
	data, st := g.readFile(put.args.(*nfs4.HandleArgs).Object, d.StateID)
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, "hello", data)
	size := nfs4.SetAttrArgs{StateID: d.StateID}
	size.Attrs.Mask, size.Attrs.Size = nfs4.BitmapOf(nfs4.AttrSize), 3
	st, _ = g.sendSteps(put, step{nfs4.OpSetAttr, &size, new(nfs4.SetAttrRes)})
	assert.Equal(t, nfs4.OK, st)
	claim := nfs4.OpenArgs{ShareAccess: nfs4.ShareBoth, Owner: nfs4.StateOwner{Owner: []byte("p")}, How: nfs4.NoCreate, Claim: nfs4.ClaimDelegCurFH, StateID: d.StateID}
	var again nfs4.OpenRes
	st, _ = g.sendSteps(put, step{nfs4.OpOpen, &claim, &again})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.DelegateNone, again.Delegation.Type)
	require.Equal(t, nfs4.OK, g.writeAtStart(put, again.StateID, "HE"))
	assert.Zero(t, back.callCount(), "the client's own calls leave the delegation alone")
	counts := g.s.Counts()
	assert.Equal(t, []int{2, 2}, []int{counts.Delegations, counts.Writes})
	list, _ := g.s.Clients(1)
	assert.Equal(t, 2, list[0].Writes)

	assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))
	assert.Equal(t, nfs4.ErrBadStateID, g.writeAtStart(put, d.StateID, "late"))
	data, _ = g.readFile(put.args.(*nfs4.HandleArgs).Object, again.StateID)
	assert.Equal(t, "HEl", data)
	_, second := g.openFile("g", nfs4.ShareRead, 0)
	assert.Equal(t, nfs4.OK, g.returnDelegation(second, other.Delegation.StateID))
	assert.Zero(t, g.s.reservedBytes)
	assert.False(t, g.s.exports.Holders().HasWriters())
	assert.Zero(t, g.s.Counts().Writes)
}

// TestNoWriteDelegation checks who gets none, and the reason that the client gets.
//
// R8881-10.4-1, R8881-18.16.3-20, R8881-18.16.3-23.
func TestNoWriteDelegation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newWriteDelegServer(t)
		o, _ := g.newClientAt("other", "192.0.2.2:700")
		why := func(name string, access uint32) nfs4.OpenDelegation {
			t.Helper()
			opened, _ := g.openFile(name, access, 0)
			return opened.Delegation
		}
		none := func(why nfs4.WhyNone) nfs4.OpenDelegation {
			return nfs4.OpenDelegation{Type: nfs4.DelegateNoneExt, Why: why}
		}
		o.openFile("open", nfs4.ShareBoth|nfs4.WantNoDeleg, 0)
		o.makeFileStep("reading")
		o.openFile("reading", nfs4.ShareRead|nfs4.WantNoDeleg, 0)
		assert.Equal(t, none(nfs4.WhyContention), why("open", nfs4.ShareBoth|nfs4.WantWriteDeleg))
		assert.Equal(t, none(nfs4.WhyContention), why("reading", nfs4.ShareWrite|nfs4.WantAnyDeleg))
		assert.Equal(t, none(nfs4.WhyNotWanted), why("f", nfs4.ShareBoth|nfs4.WantNoDeleg))
		assert.Equal(t, none(nfs4.WhyResource), why("f", nfs4.ShareBoth|nfs4.WantReadDeleg))
		g.makeFileStep("shared")
		time.Sleep(time.Minute)
		g.openDelegated("shared")
		assert.Equal(t, none(nfs4.WhyNotSuppUpgrade), why("shared", nfs4.ShareBoth|nfs4.WantWriteDeleg), "its own open for writing leaves the delegation alone")
		assert.Equal(t, nfs4.OpenDelegation{}, why("shared", nfs4.ShareBoth))
		g.openForWriting("own")
		assert.Equal(t, none(nfs4.WhyNotSuppDowngrade), why("own", nfs4.ShareRead|nfs4.WantReadDeleg))
		assert.Equal(t, none(nfs4.WhyContention), why("own", nfs4.ShareWrite|nfs4.WantWriteDeleg))
		assert.Zero(t, back.callCount())
		g.s.writeDelegations = false
		assert.Equal(t, none(nfs4.WhyResource), why("off", nfs4.ShareBoth|nfs4.WantWriteDeleg))
	})
}

// TestWriteRecall checks that each use by another client recalls a delegation for
// writing, once, and sees what its client has written back then.
//
// R8881-10.4.4-1, R8881-18.22.3-4, R7530-10.4.4-1.
func TestWriteRecall(t *testing.T) {
	remove := step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("f")}, new(nfs4.ChangeRes)}
	link := step{nfs4.OpLink, &nfs4.NameArgs{Name: []byte("second")}, new(nfs4.ChangeRes)}
	rename := step{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte("f"), New: []byte("other")}, new(nfs4.RenameRes)}
	save := step{nfs4.OpSaveFH, &void, newStatusRes()}
	chmod := nfs4.SetAttrArgs{}
	chmod.Attrs.Mask, chmod.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), 0o600
	open := func(access uint32) step {
		a := nfs4.OpenArgs{ShareAccess: access, Owner: nfs4.StateOwner{Owner: []byte("w")}, How: nfs4.NoCreate, Claim: nfs4.ClaimNull, Name: []byte("f")}
		return step{nfs4.OpOpen, &a, new(nfs4.OpenRes)}
	}
	var read nfs4.ReadRes
	for name, use := range map[string]func(put step) []step{
		"READ": func(put step) []step {
			return []step{put, {nfs4.OpRead, &nfs4.ReadArgs{StateID: nfs4.AnonymousStateID, Count: 100}, &read}}
		},
		"READ bypass": func(put step) []step {
			return []step{put, {nfs4.OpRead, &nfs4.ReadArgs{StateID: nfs4.BypassStateID, Count: 100}, &read}}
		},
		"WRITE": func(put step) []step {
			return []step{put, {nfs4.OpWrite, &nfs4.WriteArgs{StateID: nfs4.AnonymousStateID, Offset: 10, Data: []byte("x")}, new(nfs4.WriteRes)}}
		},
		"SETATTR":       func(put step) []step { return []step{put, {nfs4.OpSetAttr, &chmod, new(nfs4.SetAttrRes)}} },
		"REMOVE":        func(step) []step { return []step{putRootStep(), lookupStep("x"), remove} },
		"RENAME":        func(step) []step { return []step{putRootStep(), lookupStep("x"), save, rename} },
		"LINK":          func(put step) []step { return []step{put, save, putRootStep(), lookupStep("x"), link} },
		"OPEN to read":  func(step) []step { return []step{putRootStep(), lookupStep("x"), open(nfs4.ShareRead)} },
		"OPEN to write": func(step) []step { return []step{putRootStep(), lookupStep("x"), open(nfs4.ShareWrite)} },
		"LOCKT": func(put step) []step {
			a := nfs4.LockTArgs{Type: nfs4.LockRead, Length: 1, Owner: nfs4.StateOwner{Owner: []byte("l")}}
			return []step{put, {nfs4.OpLockT, &a, newStatusRes()}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, back := newWriteDelegServer(t)
				opened, put := g.openForWriting("f")
				own := g.anotherSession("client")
				back.recalled = func(a *nfs4.CBRecallArgs, _ nfs4.CBSequenceArgs) {
					assert.Equal(t, nfs4.StateID{Other: opened.Delegation.StateID.Other}, a.StateID)
					assert.False(t, a.Truncate) // R7530-18.2-2: the client must write back
					time.Sleep(300 * time.Millisecond)
					assert.Equal(t, nfs4.OK, own.writeAtStart(put, opened.Delegation.StateID, "written"))
					assert.Equal(t, nfs4.OK, own.returnDelegation(put, opened.Delegation.StateID))
				}
				o, _ := g.newClientAt("other", "192.0.2.2:700")
				start := time.Now()
				st, _ := o.sendSteps(use(put)...)
				assert.Equal(t, nfs4.OK, st)
				assert.Equal(t, 300*time.Millisecond, time.Since(start))
				assert.Equal(t, 1, back.callCount())
				assert.Zero(t, g.s.exports.Holders().Len())
				data, st := o.readFile(put.args.(*nfs4.HandleArgs).Object, nfs4.BypassStateID)
				if name != "REMOVE" {
					require.Equal(t, nfs4.OK, st)
					assert.Equal(t, "written", data[:7])
				}
			})
		})
	}
	assert.Equal(t, "written", string(read.Data))
}

// A fakeHolder replies to CB_GETATTR as a client that holds a file.
type fakeHolder struct {
	asked        atomic.Int32
	change, size atomic.Uint64
}

func (h *fakeHolder) answerGetAttr(context.Context, nfs4.CBGetAttrArgs) (res nfs4.GetAttrRes, err error) {
	h.asked.Add(1)
	res.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrChange), Size: h.size.Load(), Change: h.change.Load()}
	return res, nil
}

// TestAttributesOfWriter checks that other clients see the size of a file that a client changes
// in its cache, and a change attribute and a modification time that increase with each query,
// and that the client itself is not queried.
//
// R8881-10.4.3-1, R8881-10.4.3-2, R8881-18.7.4-1.
func TestAttributesOfWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newWriteDelegServer(t)
		put := g.makeFileStep("f")
		opened, _ := g.openForWriting("f")
		var h fakeHolder
		back.getattr = h.answerGetAttr
		own, st := g.statStep(put)
		require.Equal(t, nfs4.OK, st)
		assert.Zero(t, h.asked.Load())
		h.change.Store(own.Change)
		h.size.Store(own.Size)

		o, _ := g.newClientAt("other", "192.0.2.2:700")
		attrs, st := o.statStep(put)
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, own, attrs, "the client has changed nothing")
		assert.EqualValues(t, 1, h.asked.Load())
		var typ nfs4.GetAttrRes
		st, _ = o.sendSteps(put, step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrMode)}, &typ})
		require.Equal(t, nfs4.OK, st)
		assert.EqualValues(t, 1, h.asked.Load(), "no client is queried for other attributes")

		h.change.Store(own.Change + 1)
		h.size.Store(1000)
		last := attrs
		for range 3 {
			time.Sleep(time.Second)
			attrs, st = o.statStep(put)
			require.Equal(t, nfs4.OK, st)
			assert.EqualValues(t, 1000, attrs.Size)
			assert.Greater(t, attrs.Change, last.Change)
			assert.Equal(t, time.Now().Unix(), attrs.TimeModify.Sec)
			last = attrs
		}
		var list dirListing
		st, _ = o.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{DirCount: 1000, MaxCount: 4000, Request: nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrChange)}, &list})
		require.Equal(t, nfs4.OK, st)
		assert.EqualValues(t, 1000, list.attrs["f"].Size)
		assert.Greater(t, list.attrs["f"].Change, last.Change)
		same := nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: 1000}
		st, _ = o.sendSteps(put, step{nfs4.OpVerify, &nfs4.VerifyArgs{Attrs: same}, newStatusRes()})
		assert.Equal(t, nfs4.OK, st)
		st, _ = o.sendSteps(put, step{nfs4.OpNVerify, &nfs4.VerifyArgs{Attrs: same}, newStatusRes()})
		assert.Equal(t, nfs4.ErrSame, st)
		assert.Zero(t, back.callCount(), "nothing is recalled")

		// The client writes back, and has changed nothing since.
		last = list.attrs["f"]
		require.Equal(t, nfs4.OK, g.writeAtStart(put, opened.Delegation.StateID, "hello, world"))
		h.change.Store(own.Change)
		h.size.Store(12)
		attrs, st = o.statStep(put)
		require.Equal(t, nfs4.OK, st)
		assert.EqualValues(t, 12, attrs.Size)
		assert.Greater(t, attrs.Change, last.Change)
		again, _ := o.statStep(put)
		assert.Equal(t, attrs, again)
	})
}

// TestSizeBehindWriteBack checks that a size that the client reports is not passed on if the
// client has written back since it was asked: the size would be older than the change attribute.
//
// R8881-10.4.3-1.
func TestSizeBehindWriteBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newWriteDelegServer(t)
		put := g.makeFileStep("f")
		opened, _ := g.openForWriting("f")
		own, st := g.statStep(put)
		require.Equal(t, nfs4.OK, st)
		var h fakeHolder
		h.change.Store(own.Change + 1)
		h.size.Store(1000)
		back.getattr = func(ctx context.Context, a nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) {
			res, err := h.answerGetAttr(ctx, a)
			if h.asked.Load() == 1 {
				assert.Equal(t, nfs4.OK, g.writeAtStart(put, opened.Delegation.StateID, "hello, world"))
				h.size.Store(12)
			}
			return res, err
		}
		o, _ := g.newClientAt("other", "192.0.2.2:700")
		attrs, st := o.statStep(put)
		require.Equal(t, nfs4.OK, st)
		assert.EqualValues(t, 12, attrs.Size)
		assert.EqualValues(t, 2, h.asked.Load())
		assert.Greater(t, attrs.Change, own.Change)
		assert.Equal(t, nfs4.OK, g.returnDelegation(put, opened.Delegation.StateID))
	})
}

// TestOwnGetAttr40: over NFSv4.0, the GETATTR after the OPEN that grants a delegation queries
// no client (R7530-16.16-9), even if the OPEN comes from another user than the one that has
// created the client.
func TestOwnGetAttr40(t *testing.T) {
	g, _ := newWriteDelegServer(t)
	v := g.newCallableClient40("plain", "192.0.2.1:700")
	fh, opened := v.openFile40(v.client, "o", "f")
	st, _ := v.sendRaw(putStep(fh), step{nfs4.OpClose, &nfs4.CloseArgs{StateID: opened, SeqID: 3}, new(nfs4.StateIDRes)})
	require.Equal(t, nfs4.OK, st)
	chmod := nfs4.SetAttrArgs{}
	chmod.Attrs.Mask, chmod.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), 0o666
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpSetAttr, &chmod, new(nfs4.SetAttrRes)})
	require.Equal(t, nfs4.OK, st)
	for seq, uid := range []uint32{v.cred.UID, 1000} {
		v.cred.UID = uid
		a := openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate)
		a.SeqID, a.Owner.ClientID = uint32(4+2*seq), v.client
		var res nfs4.OpenRes
		var attrs nfs4.GetAttrRes
		st, n := v.sendRaw(putRootStep(), lookupStep("x"), step{nfs4.OpOpen, a, &res}, step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrSize)}, &attrs})
		require.Equal(t, nfs4.OK, st, n)
		require.Equal(t, nfs4.DelegateWrite, res.Delegation.Type)
		assert.Zero(t, g.s.state.Counts().Recalled, "no client can be queried in this test, so the delegation would be recalled")
		st, n = v.sendRaw(putStep(fh), step{nfs4.OpDelegReturn, &nfs4.StateIDArgs{StateID: res.Delegation.StateID}, newStatusRes()},
			step{nfs4.OpClose, &nfs4.CloseArgs{StateID: res.StateID, SeqID: uint32(5 + 2*seq)}, new(nfs4.StateIDRes)})
		require.Equal(t, nfs4.OK, st, n)
	}
}

// TestUnwritten checks that a change that was reported to others is not undone when the client
// returns the delegation, or loses it, without writing.
//
// R8881-10.4.3-2.
func TestUnwritten(t *testing.T) {
	for _, name := range []string{"returned", "revoked", "ended"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, back := newWriteDelegServer(t)
				put := g.makeFileStep("f")
				opened, _ := g.openForWriting("f")
				h := fakeHolder{}
				h.size.Store(1000)
				back.getattr = h.answerGetAttr
				o, _ := g.newClientAt("other", "192.0.2.2:700")
				told, st := o.statStep(put)
				require.Equal(t, nfs4.OK, st)
				require.EqualValues(t, 1000, told.Size)
				switch name {
				case "returned":
					require.Equal(t, nfs4.OK, g.returnDelegation(put, opened.Delegation.StateID))
				case "revoked":
					g.s.exports.Holders().RecallAll()
					time.Sleep(recallLease + time.Second)
				case "ended":
					require.Equal(t, nfs4.OK, g.s.Expire(g.s.state.Session(g.session).ClientID()))
					time.Sleep(time.Second)
				}
				synctest.Wait()
				require.Zero(t, g.s.exports.Holders().Len())
				if name == "revoked" {
					assert.Equal(t, nfs4.ErrDelegRevoked, g.writeAtStart(put, opened.Delegation.StateID, "late"))
				}
				o.newClientIfExpired()
				attrs, st := o.statStep(put)
				require.Equal(t, nfs4.OK, st)
				assert.EqualValues(t, 5, attrs.Size)
				assert.Greater(t, attrs.Change, told.Change)
			})
		})
	}
}

// newClientIfExpired makes a new client, if the old one's lease has expired.
func (g *testServer) newClientIfExpired() {
	g.noReclaims = false
	g.flags = 0
	g.connectAs("renewed")
}

// TestHostileWriter checks that a client that does not reply to CB_GETATTR properly must
// return the delegation, that others wait a bounded time, and that no reply corrupts
// anything.
//
// R8881-10.4.3-1.
func TestHostileWriter(t *testing.T) {
	answer := func(size uint64, mask ...nfs4.AttrID) func(context.Context, nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) {
		return func(context.Context, nfs4.CBGetAttrArgs) (res nfs4.GetAttrRes, _ error) {
			res.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(mask...), Size: size, Change: 1}
			return res, nil
		}
	}
	both := []nfs4.AttrID{nfs4.AttrSize, nfs4.AttrChange}
	silent := func(ctx context.Context, _ nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) {
		<-ctx.Done()
		return nfs4.GetAttrRes{}, context.Cause(ctx)
	}
	for name, tt := range map[string]struct {
		getattr func(context.Context, nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error)
		within  time.Duration
		size    uint64
	}{
		"change goes backwards": {answer(7, both...), 0, 7},
		"size of 2^63":          {answer(1<<63, both...), 300 * time.Millisecond, 5},
		"greatest size":         {answer(math.MaxUint64, both...), 300 * time.Millisecond, 5},
		"no size":               {answer(7, nfs4.AttrChange), 300 * time.Millisecond, 5},
		"no change":             {answer(7, nfs4.AttrSize), 300 * time.Millisecond, 5},
		"BADHANDLE": {func(context.Context, nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) {
			return nfs4.GetAttrRes{Status: nfs4.ErrBadHandle}, nil
		}, 300 * time.Millisecond, 5},
		"DELAY": {func(context.Context, nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) {
			return nfs4.GetAttrRes{Status: nfs4.ErrDelay}, nil
		}, queryTimeout + 300*time.Millisecond, 5},
		"connection lost": {func(context.Context, nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) {
			return nfs4.GetAttrRes{}, errors.New("connection reset")
		}, queryTimeout + 300*time.Millisecond, 5},
		"silence": {silent, queryTimeout + 300*time.Millisecond, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, back := newWriteDelegServer(t)
				put := g.makeFileStep("f")
				opened, _ := g.openForWriting("f")
				back.getattr = tt.getattr
				own := g.anotherSession("client")
				back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
					time.Sleep(300 * time.Millisecond)
					assert.Equal(t, nfs4.OK, own.returnDelegation(put, opened.Delegation.StateID))
				}
				o, _ := g.newClientAt("other", "192.0.2.2:700")
				before, _ := g.statStep(put)
				start := time.Now()
				attrs, st := o.statStep(put)
				require.Equal(t, nfs4.OK, st)
				assert.Equal(t, tt.within, time.Since(start))
				assert.Equal(t, tt.size, attrs.Size)
				assert.GreaterOrEqual(t, attrs.Change, before.Change)
				assert.Equal(t, tt.within > 0, back.callCount() == 1, "recalled")
			})
		})
	}
}

// TestDeafWriter checks that others wait for a client that replies to neither CB_GETATTR nor
// CB_RECALL a lease at most, each call for two seconds at most, and without a permit.
//
// R8881-18.7.4-1.
func TestDeafWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newWriteDelegServer(t)
		put := g.makeFileStep("f")
		opened, _ := g.openForWriting("f")
		gone := errors.New("connection reset")
		back.getattr = func(context.Context, nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) { return nfs4.GetAttrRes{}, gone }
		back.answer = func(int) (seq, op nfs4.Status, err error) { return 0, 0, gone }
		o, _ := g.newClientAt("other", "192.0.2.2:700")
		start := time.Now()
		for {
			call := time.Now()
			attrs, st := o.statStep(put)
			assert.LessOrEqual(t, time.Since(call), 2*time.Second)
			if st == nfs4.OK {
				assert.EqualValues(t, 5, attrs.Size)
				break
			}
			require.Equal(t, nfs4.ErrDelay, st)
			time.Sleep(time.Second)
			st, _ = g.sendSteps()
			require.Equal(t, nfs4.OK, st)
		}
		assert.InDelta(t, recallLease.Seconds(), time.Since(start).Seconds(), 3)
		assert.Equal(t, nfs4.ErrDelegRevoked, g.writeAtStart(put, opened.Delegation.StateID, "late"))
	})
}

// TestAskedTogether checks that calls that arrive during a query wait for the next reply, one
// for all of them.
func TestAskedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newWriteDelegServer(t)
		put := g.makeFileStep("f")
		g.openForWriting("f")
		attrs, _ := g.statStep(put)
		var h fakeHolder
		h.size.Store(attrs.Size)
		h.change.Store(attrs.Change)
		back.getattr = func(ctx context.Context, a nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) {
			res, err := h.answerGetAttr(ctx, a)
			time.Sleep(100 * time.Millisecond)
			return res, err
		}
		start := time.Now()
		done := make(chan struct{})
		for i := range 5 {
			o, _ := g.newClientAt("other"+string(rune('a'+i)), "192.0.2.2:700")
			go func() {
				_, st := o.statStep(put)
				assert.Equal(t, nfs4.OK, st)
				done <- struct{}{}
			}()
		}
		for range 5 {
			<-done
		}
		assert.EqualValues(t, 2, h.asked.Load())
		assert.Equal(t, 200*time.Millisecond, time.Since(start))
	})
}

// TestReclaimWriteDelegation: after a restart a client reclaims its delegation for
// writing, and writes back what it has in its cache, as any of its users, while others
// wait to read and to change the file.
//
// R8881-10.2.1-2, R8881-10.2.1-4, R7530-10.2.1-2.
func TestReclaimWriteDelegation(t *testing.T) {
	vfstest.NeedRoot(t)
	for _, name := range []string{"exclusive", "shared", "shared, and open on the host", "off", "gone"} {
		t.Run(name, func(t *testing.T) {
			fs, host := newACLDir(t)
			shared := strings.HasPrefix(name, "shared")
			g, _ := newDelegServerFor(t, fs, !shared)
			g.s.writeDelegations = true
			state := t.TempDir()
			g.restartServer(state, 8)
			g.newCallableClient("client", "192.0.2.1:700")
			put := g.makeFileStep("f")
			fh := put.args.(*nfs4.HandleArgs).Object
			require.NoError(t, os.Chmod(filepath.Join(host, "f"), 0o666))
			g.openForWriting("f")

			g.s.writeDelegations = name == "exclusive" || shared
			g.restartServer(state, 9)
			if name == "shared, and open on the host" { // so the file gets no lease
				local, err := os.Open(filepath.Join(host, "f"))
				require.NoError(t, err)
				defer local.Close()
			}
			require.Equal(t, 1, g.s.Grace().Writes)
			o, _ := g.newClientAt("other", "192.0.2.2:700")
			a := nfs4.OpenArgs{ShareAccess: nfs4.ShareRead, Owner: nfs4.StateOwner{Owner: []byte("w")}, How: nfs4.NoCreate, Claim: nfs4.ClaimFH}
			open := func() nfs4.Status {
				st, _ := o.sendSteps(put, step{nfs4.OpOpen, &a, new(nfs4.OpenRes)})
				return st
			}
			assert.Equal(t, nfs4.ErrGrace, open())
			assert.True(t, g.s.state.HasEarlierWriters())
			assert.Equal(t, nfs4.ErrDelay, o.writeAtStart(put, nfs4.AnonymousStateID, "x"))
			if name == "gone" {
				require.True(t, g.s.EndGrace())
				assert.False(t, g.s.state.HasEarlierWriters())
				assert.Equal(t, nfs4.OK, open())
				return
			}

			g.noReclaims = true
			back := g.newCallableClient("client", "192.0.2.1:700")
			g.noReclaims = false
			_, st := g.reclaimOpen(fh, nfs4.ShareBoth, 0, nfs4.DelegateRead)
			assert.Equal(t, nfs4.ErrReclaimBad, st, "no such delegation was granted")
			opened, st := g.reclaimOpen(fh, nfs4.ShareBoth, 0, nfs4.DelegateWrite)
			require.Equal(t, nfs4.OK, st)
			d := opened.Delegation
			require.Equal(t, nfs4.DelegateWrite, d.Type)
			assert.Equal(t, name != "exclusive", d.Recall)
			assert.Equal(t, nfs4.ErrGrace, open())
			require.Equal(t, nfs4.OK, g.writeAtStart(put, d.StateID, "wri"))
			g.cred.UID, g.cred.GID = 1001, 1001
			require.Equal(t, nfs4.OK, g.writeAtStart(put, d.StateID, "writ"), "as another user of the client")
			g.cred.UID, g.cred.GID = 0, 0
			claim := a
			claim.ShareAccess, claim.Claim, claim.StateID = nfs4.ShareBoth, nfs4.ClaimDelegCurFH, d.StateID
			st, _ = g.sendSteps(put, step{nfs4.OpOpen, &claim, new(nfs4.OpenRes)})
			assert.Equal(t, nfs4.OK, st)
			st, _ = g.sendSteps(step{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, newStatusRes()})
			require.Equal(t, nfs4.OK, st)
			require.Equal(t, nfs4.OK, g.writeAtStart(put, d.StateID, "writt"))
			if d.Recall {
				assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))
			}
			own := g.anotherSession("client")
			back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
				assert.Equal(t, nfs4.OK, own.returnDelegation(put, d.StateID))
			}
			assert.Equal(t, nfs4.OK, open())
			data, st := o.readFile(fh, nfs4.AnonymousStateID)
			require.Equal(t, nfs4.OK, st)
			assert.Equal(t, "writt", data)
		})
	}
}
