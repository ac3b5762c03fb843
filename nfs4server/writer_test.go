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

// writeRig is a delegRig that grants delegations for writing.
func writeRig(t *testing.T) (*rig, *backchannel) {
	g, back := delegRig(t)
	g.s.writes = true
	return g, back
}

// writing opens a file with content for writing, and requires a delegation.
func (g *rig) writing(name string) (nfs4.OpenRes, step) {
	g.t.Helper()
	opened, put := g.openFile(name, nfs4.ShareBoth, 0)
	require.Equal(g.t, nfs4.DelegateWrite, opened.Delegation.Type)
	return opened, put
}

// put writes data at the beginning of the file of a step, by a stateid.
func (g *rig) put(put step, id nfs4.StateID, data string) nfs4.Status {
	g.t.Helper()
	st, _ := g.do(put.again(), step{nfs4.OpWrite, &nfs4.WriteArgs{StateID: id, Data: []byte(data)}, new(nfs4.WriteRes)})
	return st
}

// stat is GETATTR of size, change and time_modify.
func (g *rig) stat(put step) (nfs4.Attrs, nfs4.Status) {
	g.t.Helper()
	var res nfs4.GetAttrRes
	st, _ := g.do(put.again(), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrChange, nfs4.AttrTimeModify)}, &res})
	return res.Attrs, st
}

// anotherSession returns g with another session of the same client, for calls while g
// answers callbacks.
func (g *rig) anotherSession(owner string) *rig {
	own := *g
	own.noReclaims, own.flags = true, 0
	own.sessionAs(owner)
	return &own
}

// TestWriteDelegation checks what comes with a delegation for writing, and what its
// stateid is good for.
//
// R8881-10.4-1, R8881-10.4-4, R8881-10.4.1-2, R8881-10.2.1-4.
func TestWriteDelegation(t *testing.T) {
	g, back := writeRig(t)
	opened, put := g.openFile("f", nfs4.ShareBoth, 0)
	d := opened.Delegation
	require.Equal(t, nfs4.DelegateWrite, d.Type)
	assert.Equal(t, nfs4.ACE{Who: []byte{}}, d.Permissions)
	var fs nfs4.GetAttrRes
	st, _ := g.do(put, step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrSpaceAvail)}, &fs})
	require.Equal(t, nfs4.OK, st)
	free := int64(fs.Attrs.SpaceAvail)
	assert.Equal(t, nfs4.SpaceLimit{Blocks: true, NumBlocks: uint32(free / 16 / 4096), BlockBytes: 4096}, d.Limit)
	other, _ := g.openFile("g", nfs4.ShareWrite, 0)
	require.Equal(t, nfs4.DelegateWrite, other.Delegation.Type)
	free -= int64(d.Limit.NumBlocks) * 4096
	assert.InDelta(t, free/16/4096, other.Delegation.Limit.NumBlocks, 2, "what the first may write is kept for it")
	assert.Equal(t, nfs4.OK, g.close(put.args.(*nfs4.HandleArgs).Object, opened.StateID))

	require.Equal(t, nfs4.OK, g.put(put, d.StateID, "hello"))
	data, st := g.read(put.args.(*nfs4.HandleArgs).Object, d.StateID)
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, "hello", data)
	size := nfs4.SetAttrArgs{StateID: d.StateID}
	size.Attrs.Mask, size.Attrs.Size = nfs4.BitmapOf(nfs4.AttrSize), 3
	st, _ = g.do(put, step{nfs4.OpSetAttr, &size, new(nfs4.SetAttrRes)})
	assert.Equal(t, nfs4.OK, st)
	claim := nfs4.OpenArgs{ShareAccess: nfs4.ShareBoth, Owner: nfs4.StateOwner{Owner: []byte("p")}, How: nfs4.NoCreate, Claim: nfs4.ClaimDelegCurFH, StateID: d.StateID}
	var again nfs4.OpenRes
	st, _ = g.do(put, step{nfs4.OpOpen, &claim, &again})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.DelegateNone, again.Delegation.Type)
	require.Equal(t, nfs4.OK, g.put(put, again.StateID, "HE"))
	assert.Zero(t, back.count(), "the client's own calls leave the delegation alone")
	counts := g.s.Counts()
	assert.Equal(t, []int{2, 2}, []int{counts.Delegations, counts.Writes})
	list, _ := g.s.Clients(1)
	assert.Equal(t, 2, list[0].Writes)

	assert.Equal(t, nfs4.OK, g.give(put, d.StateID))
	assert.Equal(t, nfs4.ErrBadStateID, g.put(put, d.StateID, "late"))
	data, _ = g.read(put.args.(*nfs4.HandleArgs).Object, again.StateID)
	assert.Equal(t, "HEl", data)
	_, second := g.openFile("g", nfs4.ShareRead, 0)
	assert.Equal(t, nfs4.OK, g.give(second, other.Delegation.StateID))
	assert.Zero(t, g.s.promised)
	assert.False(t, g.s.realm.Holders().Written())
	assert.Zero(t, g.s.Counts().Writes)
}

// TestNoWriteDelegation checks who gets none, and the reason that the client is told.
//
// R8881-10.4-1, R8881-18.16.3-20, R8881-18.16.3-23.
func TestNoWriteDelegation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := writeRig(t)
		o, _ := g.clientAt("other", "192.0.2.2:700")
		why := func(name string, access uint32) nfs4.OpenDelegation {
			t.Helper()
			opened, _ := g.openFile(name, access, 0)
			return opened.Delegation
		}
		none := func(why nfs4.WhyNone) nfs4.OpenDelegation {
			return nfs4.OpenDelegation{Type: nfs4.DelegateNoneExt, Why: why}
		}
		o.openFile("open", nfs4.ShareBoth|nfs4.WantNoDeleg, 0)
		o.file("reading")
		o.openFile("reading", nfs4.ShareRead|nfs4.WantNoDeleg, 0)
		assert.Equal(t, none(nfs4.WhyContention), why("open", nfs4.ShareBoth|nfs4.WantWriteDeleg))
		assert.Equal(t, none(nfs4.WhyContention), why("reading", nfs4.ShareWrite|nfs4.WantAnyDeleg))
		assert.Equal(t, none(nfs4.WhyNotWanted), why("f", nfs4.ShareBoth|nfs4.WantNoDeleg))
		assert.Equal(t, none(nfs4.WhyResource), why("f", nfs4.ShareBoth|nfs4.WantReadDeleg))
		g.file("shared")
		time.Sleep(time.Minute)
		g.delegated("shared")
		assert.Equal(t, none(nfs4.WhyNotSuppUpgrade), why("shared", nfs4.ShareBoth|nfs4.WantWriteDeleg), "its own open for writing leaves the delegation alone")
		assert.Equal(t, nfs4.OpenDelegation{}, why("shared", nfs4.ShareBoth))
		g.writing("own")
		assert.Equal(t, none(nfs4.WhyNotSuppDowngrade), why("own", nfs4.ShareRead|nfs4.WantReadDeleg))
		assert.Equal(t, none(nfs4.WhyContention), why("own", nfs4.ShareWrite|nfs4.WantWriteDeleg))
		assert.Zero(t, back.count())
		g.s.writes = false
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
	save := step{nfs4.OpSaveFH, &void, status()}
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
		"REMOVE":        func(step) []step { return []step{root(), look("x"), remove} },
		"RENAME":        func(step) []step { return []step{root(), look("x"), save, rename} },
		"LINK":          func(put step) []step { return []step{put, save, root(), look("x"), link} },
		"OPEN to read":  func(step) []step { return []step{root(), look("x"), open(nfs4.ShareRead)} },
		"OPEN to write": func(step) []step { return []step{root(), look("x"), open(nfs4.ShareWrite)} },
		"LOCKT": func(put step) []step {
			a := nfs4.LockTArgs{Type: nfs4.LockRead, Length: 1, Owner: nfs4.StateOwner{Owner: []byte("l")}}
			return []step{put, {nfs4.OpLockT, &a, status()}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, back := writeRig(t)
				opened, put := g.writing("f")
				own := g.anotherSession("client")
				back.recalled = func(a *nfs4.CBRecallArgs, _ nfs4.CBSequenceArgs) {
					assert.Equal(t, nfs4.StateID{Other: opened.Delegation.StateID.Other}, a.StateID)
					assert.False(t, a.Truncate)
					time.Sleep(300 * time.Millisecond)
					assert.Equal(t, nfs4.OK, own.put(put, opened.Delegation.StateID, "written"))
					assert.Equal(t, nfs4.OK, own.give(put, opened.Delegation.StateID))
				}
				o, _ := g.clientAt("other", "192.0.2.2:700")
				start := time.Now()
				st, _ := o.do(use(put)...)
				assert.Equal(t, nfs4.OK, st)
				assert.Equal(t, 300*time.Millisecond, time.Since(start))
				assert.Equal(t, 1, back.count())
				assert.Zero(t, g.s.realm.Holders().Len())
				data, st := o.read(put.args.(*nfs4.HandleArgs).Object, nfs4.BypassStateID)
				if name != "REMOVE" {
					require.Equal(t, nfs4.OK, st)
					assert.Equal(t, "written", data[:7])
				}
			})
		})
	}
	assert.Equal(t, "written", string(read.Data))
}

// A holder answers CB_GETATTR as a client that holds a file.
type holder struct {
	asked        atomic.Int32
	change, size atomic.Uint64
}

func (h *holder) answer(context.Context, nfs4.CBGetAttrArgs) (res nfs4.GetAttrRes, err error) {
	h.asked.Add(1)
	res.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrChange), Size: h.size.Load(), Change: h.change.Load()}
	return res, nil
}

// TestAttributesOfWriter checks that others learn the size of a file that a client
// changes in its cache, and a change attribute and a time of modification that rise
// with each question, and that the client itself is not asked.
//
// R8881-10.4.3-1, R8881-10.4.3-2, R8881-18.7.4-1.
func TestAttributesOfWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := writeRig(t)
		put := g.file("f")
		opened, _ := g.writing("f")
		var h holder
		back.getattr = h.answer
		own, st := g.stat(put)
		require.Equal(t, nfs4.OK, st)
		assert.Zero(t, h.asked.Load())
		h.change.Store(own.Change)
		h.size.Store(own.Size)

		o, _ := g.clientAt("other", "192.0.2.2:700")
		attrs, st := o.stat(put)
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, own, attrs, "the client has changed nothing")
		assert.EqualValues(t, 1, h.asked.Load())
		var typ nfs4.GetAttrRes
		st, _ = o.do(put, step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrMode)}, &typ})
		require.Equal(t, nfs4.OK, st)
		assert.EqualValues(t, 1, h.asked.Load(), "for other attributes nobody is asked")

		h.change.Store(own.Change + 1)
		h.size.Store(1000)
		last := attrs
		for range 3 {
			time.Sleep(time.Second)
			attrs, st = o.stat(put)
			require.Equal(t, nfs4.OK, st)
			assert.EqualValues(t, 1000, attrs.Size)
			assert.Greater(t, attrs.Change, last.Change)
			assert.Equal(t, time.Now().Unix(), attrs.TimeModify.Sec)
			last = attrs
		}
		var list listing
		st, _ = o.do(root(), look("x"), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{DirCount: 1000, MaxCount: 4000, Request: nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrChange)}, &list})
		require.Equal(t, nfs4.OK, st)
		assert.EqualValues(t, 1000, list.attrs["f"].Size)
		assert.Greater(t, list.attrs["f"].Change, last.Change)
		same := nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: 1000}
		st, _ = o.do(put, step{nfs4.OpVerify, &nfs4.VerifyArgs{Attrs: same}, status()})
		assert.Equal(t, nfs4.OK, st)
		st, _ = o.do(put, step{nfs4.OpNVerify, &nfs4.VerifyArgs{Attrs: same}, status()})
		assert.Equal(t, nfs4.ErrSame, st)
		assert.Zero(t, back.count(), "nothing is recalled")

		// The client writes back, and has changed nothing since.
		last = list.attrs["f"]
		require.Equal(t, nfs4.OK, g.put(put, opened.Delegation.StateID, "hello, world"))
		h.change.Store(own.Change)
		h.size.Store(12)
		attrs, st = o.stat(put)
		require.Equal(t, nfs4.OK, st)
		assert.EqualValues(t, 12, attrs.Size)
		assert.Greater(t, attrs.Change, last.Change)
		again, _ := o.stat(put)
		assert.Equal(t, attrs, again)
	})
}

// TestOwnGetAttr40: in version 4.0 the GETATTR behind the OPEN that grants a delegation
// asks nobody (R7530-16.16-9).
func TestOwnGetAttr40(t *testing.T) {
	g, back := writeRig(t)
	opened, put := g.writing("f")
	back.getattr = func(context.Context, nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) {
		t.Error("the client was asked")
		return nfs4.GetAttrRes{}, nil
	}
	x := &compound{server: g.s}
	u := new(use)
	x.uses = []*use{u}
	require.Equal(t, nfs4.OK, x.actFor(g.s.state.Session(g.session), nfs4.OK))
	assert.Equal(t, g.s.state.Session(g.session).ClientID(), u.Client)
	attrs, st := g.stat(put)
	assert.Equal(t, nfs4.OK, st)
	assert.Zero(t, attrs.Size)
	assert.Equal(t, nfs4.OK, g.give(put, opened.Delegation.StateID))
}

// TestUnwritten checks that a change of which others have heard is not taken back when
// the client returns the delegation, or loses it, with nothing written.
//
// R8881-10.4.3-2.
func TestUnwritten(t *testing.T) {
	for _, name := range []string{"returned", "revoked", "ended"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, back := writeRig(t)
				put := g.file("f")
				opened, _ := g.writing("f")
				h := holder{}
				h.size.Store(1000)
				back.getattr = h.answer
				o, _ := g.clientAt("other", "192.0.2.2:700")
				told, st := o.stat(put)
				require.Equal(t, nfs4.OK, st)
				require.EqualValues(t, 1000, told.Size)
				switch name {
				case "returned":
					require.Equal(t, nfs4.OK, g.give(put, opened.Delegation.StateID))
				case "revoked":
					g.s.realm.Holders().RecallAll()
					time.Sleep(recallLease + time.Second)
				case "ended":
					require.Equal(t, nfs4.OK, g.s.Expire(g.s.state.Session(g.session).ClientID()))
					time.Sleep(time.Second)
				}
				synctest.Wait()
				require.Zero(t, g.s.realm.Holders().Len())
				if name == "revoked" {
					assert.Equal(t, nfs4.ErrDelegRevoked, g.put(put, opened.Delegation.StateID, "late"))
				}
				o.renew()
				attrs, st := o.stat(put)
				require.Equal(t, nfs4.OK, st)
				assert.EqualValues(t, 5, attrs.Size)
				assert.Greater(t, attrs.Change, told.Change)
			})
		})
	}
}

// renew makes a new client, if the lease of the old one has expired.
func (g *rig) renew() {
	g.noReclaims = false
	g.flags = 0
	g.connectAs("renewed")
}

// TestHostileWriter checks that a client which does not answer CB_GETATTR properly must
// return the delegation, that others wait a bounded time, and that no answer corrupts
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
		}, askTime + 300*time.Millisecond, 5},
		"connection lost": {func(context.Context, nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) {
			return nfs4.GetAttrRes{}, errors.New("connection reset")
		}, askTime + 300*time.Millisecond, 5},
		"silence": {silent, askTime + 300*time.Millisecond, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, back := writeRig(t)
				put := g.file("f")
				opened, _ := g.writing("f")
				back.getattr = tt.getattr
				own := g.anotherSession("client")
				back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
					time.Sleep(300 * time.Millisecond)
					assert.Equal(t, nfs4.OK, own.give(put, opened.Delegation.StateID))
				}
				o, _ := g.clientAt("other", "192.0.2.2:700")
				before, _ := g.stat(put)
				start := time.Now()
				attrs, st := o.stat(put)
				require.Equal(t, nfs4.OK, st)
				assert.Equal(t, tt.within, time.Since(start))
				assert.Equal(t, tt.size, attrs.Size)
				assert.GreaterOrEqual(t, attrs.Change, before.Change)
				assert.Equal(t, tt.within > 0, back.count() == 1, "recalled")
			})
		})
	}
}

// TestDeafWriter checks that others wait for a client that answers neither CB_GETATTR nor
// CB_RECALL a lease at most, each call for two seconds at most, and without a permit.
//
// R8881-18.7.4-1.
func TestDeafWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := writeRig(t)
		put := g.file("f")
		opened, _ := g.writing("f")
		gone := errors.New("connection reset")
		back.getattr = func(context.Context, nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) { return nfs4.GetAttrRes{}, gone }
		back.answer = func(int) (seq, op nfs4.Status, err error) { return 0, 0, gone }
		o, _ := g.clientAt("other", "192.0.2.2:700")
		start := time.Now()
		for {
			call := time.Now()
			attrs, st := o.stat(put)
			assert.LessOrEqual(t, time.Since(call), 2*time.Second)
			if st == nfs4.OK {
				assert.EqualValues(t, 5, attrs.Size)
				break
			}
			require.Equal(t, nfs4.ErrDelay, st)
			time.Sleep(time.Second)
			st, _ = g.do()
			require.Equal(t, nfs4.OK, st)
		}
		assert.InDelta(t, recallLease.Seconds(), time.Since(start).Seconds(), 3)
		assert.Equal(t, nfs4.ErrDelegRevoked, g.put(put, opened.Delegation.StateID, "late"))
	})
}

// TestAskedTogether checks that calls which come while a client is asked wait for the
// next answer, one for all of them.
func TestAskedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := writeRig(t)
		put := g.file("f")
		g.writing("f")
		attrs, _ := g.stat(put)
		var h holder
		h.size.Store(attrs.Size)
		h.change.Store(attrs.Change)
		back.getattr = func(ctx context.Context, a nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) {
			res, err := h.answer(ctx, a)
			time.Sleep(100 * time.Millisecond)
			return res, err
		}
		start := time.Now()
		done := make(chan struct{})
		for i := range 5 {
			o, _ := g.clientAt("other"+string(rune('a'+i)), "192.0.2.2:700")
			go func() {
				_, st := o.stat(put)
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
			fs, host := shm(t)
			shared := strings.HasPrefix(name, "shared")
			g, _ := delegRigOf(t, fs, !shared)
			g.s.writes = true
			state := t.TempDir()
			g.start(state, 8)
			g.callable("client", "192.0.2.1:700")
			put := g.file("f")
			fh := put.args.(*nfs4.HandleArgs).Object
			require.NoError(t, os.Chmod(filepath.Join(host, "f"), 0o666))
			g.writing("f")

			g.s.writes = name == "exclusive" || shared
			g.start(state, 9)
			if name == "shared, and open on the host" { // so the file gets no lease
				local, err := os.Open(filepath.Join(host, "f"))
				require.NoError(t, err)
				defer local.Close()
			}
			require.Equal(t, 1, g.s.Grace().Writes)
			o, _ := g.clientAt("other", "192.0.2.2:700")
			a := nfs4.OpenArgs{ShareAccess: nfs4.ShareRead, Owner: nfs4.StateOwner{Owner: []byte("w")}, How: nfs4.NoCreate, Claim: nfs4.ClaimFH}
			open := func() nfs4.Status {
				st, _ := o.do(put, step{nfs4.OpOpen, &a, new(nfs4.OpenRes)})
				return st
			}
			assert.Equal(t, nfs4.ErrGrace, open())
			assert.True(t, g.s.state.Writing())
			assert.Equal(t, nfs4.ErrDelay, o.put(put, nfs4.AnonymousStateID, "x"))
			if name == "gone" {
				require.True(t, g.s.EndGrace())
				assert.False(t, g.s.state.Writing())
				assert.Equal(t, nfs4.OK, open())
				return
			}

			g.noReclaims = true
			back := g.callable("client", "192.0.2.1:700")
			g.noReclaims = false
			_, st := g.reclaim(fh, nfs4.ShareBoth, 0, nfs4.DelegateRead)
			assert.Equal(t, nfs4.ErrReclaimBad, st, "no such delegation was granted")
			opened, st := g.reclaim(fh, nfs4.ShareBoth, 0, nfs4.DelegateWrite)
			require.Equal(t, nfs4.OK, st)
			d := opened.Delegation
			require.Equal(t, nfs4.DelegateWrite, d.Type)
			assert.Equal(t, name != "exclusive", d.Recall)
			assert.Equal(t, nfs4.ErrGrace, open())
			require.Equal(t, nfs4.OK, g.put(put, d.StateID, "wri"))
			g.cred.UID, g.cred.GID = 1001, 1001
			require.Equal(t, nfs4.OK, g.put(put, d.StateID, "writ"), "as another user of the client")
			g.cred.UID, g.cred.GID = 0, 0
			claim := a
			claim.ShareAccess, claim.Claim, claim.StateID = nfs4.ShareBoth, nfs4.ClaimDelegCurFH, d.StateID
			st, _ = g.do(put, step{nfs4.OpOpen, &claim, new(nfs4.OpenRes)})
			assert.Equal(t, nfs4.OK, st)
			st, _ = g.do(step{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, status()})
			require.Equal(t, nfs4.OK, st)
			require.Equal(t, nfs4.OK, g.put(put, d.StateID, "writt"))
			if d.Recall {
				assert.Equal(t, nfs4.OK, g.give(put, d.StateID))
			}
			own := g.anotherSession("client")
			back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
				assert.Equal(t, nfs4.OK, own.give(put, d.StateID))
			}
			assert.Equal(t, nfs4.OK, open())
			data, st := o.read(fh, nfs4.AnonymousStateID)
			require.Equal(t, nfs4.OK, st)
			assert.Equal(t, "writt", data)
		})
	}
}
