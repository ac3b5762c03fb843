package nfs4server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// A fakeMeddlingFS is a file system in which something happens while a file is opened.
type fakeMeddlingFS struct {
	*mem.FS
	meddle func() // at the next open, once
}

func (m *fakeMeddlingFS) Access(ctx context.Context, c *vfs.Cred, h vfs.Handle, mask uint32) (uint32, vfs.MaybeAttr, error) {
	if f := m.meddle; f != nil {
		m.meddle = nil
		f()
	}
	return m.FS.Access(ctx, c, h, mask)
}

// TestDelegationOfOldExport checks that an OPEN which runs while the exports change
// gets no delegation: the new options may not permit it, and nothing would recall it.
func TestDelegationOfOldExport(t *testing.T) {
	fs := &fakeMeddlingFS{FS: mem.New(mem.Options{Size: 1 << 20})}
	g, _ := newDelegServerFor(t, fs, true)
	g.makeFileStep("f")
	fs.meddle = func() {
		require.NoError(t, g.s.exports.SetExports([]exportset.Export{{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{
			NoRootSquash: true, Insecure: true,
		})}}))
	}
	opened, _ := g.openFile("f", nfs4.ShareRead, 0)
	require.Nil(t, fs.meddle)
	assert.Equal(t, nfs4.DelegateNone, opened.Delegation.Type)
	assert.Zero(t, g.s.exports.Holders().Len())
}

// TestRecallByCreation checks that an exclusive OPEN that finds the file that the client has
// created before is an OPEN for an existing file: it recalls delegations.
func TestRecallByCreation(t *testing.T) {
	for name, open := range map[string]func(a *nfs4.OpenArgs){
		"to write":            func(*nfs4.OpenArgs) {},
		"that denies to read": func(a *nfs4.OpenArgs) { a.ShareAccess, a.ShareDeny = nfs4.ShareRead, nfs4.ShareRead },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, back := newDelegServer(t)
				o, _ := g.newClientAt("other", "192.0.2.2:700")
				a := openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Exclusive1)
				opened, fh, st := o.openName(a)
				require.Equal(t, nfs4.OK, st)
				require.Equal(t, nfs4.OK, o.closeFile(fh, opened.StateID))
				reading, put := g.openFile("f", nfs4.ShareRead, 0)
				d := reading.Delegation
				require.Equal(t, nfs4.DelegateRead, d.Type)
				require.Equal(t, nfs4.OK, g.closeFile(fh, reading.StateID))
				back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
					time.Sleep(300 * time.Millisecond)
					assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))
				}
				open(a)
				start := time.Now()
				_, _, st = o.openName(a)
				require.Equal(t, nfs4.OK, st)
				assert.Equal(t, 300*time.Millisecond, time.Since(start))
				assert.Equal(t, 1, back.callCount())
			})
		})
	}
}

// TestRecallsBehind checks that recalls which a client does not take, whatever their
// number, hold up no other recall from that client.
//
// R8881-10.2-6.
func TestRecallsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newDelegServer(t)
		const lost = 3 * maxCallbackWorkers
		name := func(i int) string { return string(rune('a' + i)) }
		for i := range lost {
			g.makeFileStep(name(i))
			g.openDelegated(name(i))
		}
		put := g.makeFileStep("last")
		last, _ := g.openDelegated("last")
		back.answer = func(n int) (seq, op nfs4.Status, err error) {
			back.mu.Lock()
			defer back.mu.Unlock()
			if back.calls[n].StateID.Other != last.StateID.Other {
				return nfs4.OK, nfs4.ErrBadStateID, nil
			}
			return nfs4.OK, nfs4.OK, nil
		}
		back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
			assert.Equal(t, nfs4.OK, g.returnDelegation(put, last.StateID))
		}
		o, _ := g.newClientAt("other", "192.0.2.2:700")
		remove := func(name string) nfs4.Status {
			st, _ := o.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte(name)}, new(nfs4.ChangeRes)})
			return st
		}
		for i := range lost {
			require.Equal(t, nfs4.ErrDelay, remove(name(i)))
		}
		start := time.Now()
		require.Equal(t, nfs4.OK, remove("last"))
		assert.LessOrEqual(t, time.Since(start), 2*callbackRetry)
	})
}

// TestRecallEnds checks that a recall leaves nothing behind once the client has returned the
// delegation.
func TestRecallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newDelegServer(t)
		put := g.makeFileStep("f")
		given, _ := g.openDelegated("f")
		d, status := g.s.state.DelegationOf(g.s.state.Session(g.session), &given.StateID)
		require.Equal(t, nfs4.OK, status)
		back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
			assert.Equal(t, nfs4.OK, g.returnDelegation(put, given.StateID))
		}
		g.s.exports.Holders().RecallAll()
		time.Sleep(time.Second)
		assert.Zero(t, g.s.exports.Holders().Len())
		assert.False(t, d.File.(*delegatedFile).revokeTimer.Load().Stop(), "the timer runs")
		g.s.callbacks.mu.Lock()
		defer g.s.callbacks.mu.Unlock()
		assert.Empty(t, g.s.callbacks.byClient)
	})
}

// A fakeLeaserFS is a file system whose leases are the test's.
type fakeLeaserFS struct {
	*mem.FS
	lease func(scope vfs.LeaseScope, broken func()) (release func())
	open  error // opening a file
}

func (l *fakeLeaserFS) Lease(_ context.Context, _ *vfs.Cred, _ vfs.Handle, scope vfs.LeaseScope, broken func()) (func(), error) {
	return l.lease(scope, broken), nil
}

func (l *fakeLeaserFS) OpenFile(ctx context.Context, c *vfs.Cred, h vfs.Handle, access vfs.OpenAccess) (vfs.Opened, error) {
	if l.open != nil {
		return vfs.Opened{}, l.open
	}
	return l.FS.OpenFile(ctx, c, h, access)
}

// TestDelegationLease checks that a delegation for a file that host processes may change has a
// lease for all changes, which ends before the client's own change, or with a delegation that
// is not granted after all.
func TestDelegationLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &fakeLeaserFS{FS: mem.New(mem.Options{Size: 1 << 20})}
		g, back := newDelegServerFor(t, fs, false)
		table := g.s.exports.Holders()
		leases := 0
		var breaks func()
		fs.lease = func(scope vfs.LeaseScope, broken func()) func() {
			assert.Equal(t, vfs.LeaseAll, scope)
			leases, breaks = leases+1, broken
			return func() {
				assert.Equal(t, 1, table.Len(), "changes wait until the lease has ended")
				leases--
			}
		}
		put := g.makeFileStep("f")
		d, _ := g.openDelegated("f")
		assert.Equal(t, 1, leases)
		chmod := nfs4.SetAttrArgs{}
		chmod.Attrs.Mask, chmod.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), 0o600
		st, _ := g.sendSteps(put, step{nfs4.OpSetAttr, &chmod, new(nfs4.SetAttrRes)})
		assert.Equal(t, nfs4.OK, st)
		assert.Zero(t, leases, "the client's own change breaks the lease")
		synctest.Wait()
		assert.Equal(t, 1, back.callCount())
		assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))
		back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
			assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))
		}

		// A host process.
		put = g.makeFileStep("g")
		d, _ = g.openDelegated("g")
		breaks()
		time.Sleep(time.Second)
		assert.Equal(t, 2, back.callCount())
		assert.Zero(t, leases)

		// A change before the delegation is granted.
		g.makeFileStep("h")
		lease := fs.lease
		fs.lease = func(scope vfs.LeaseScope, broken func()) func() {
			defer broken()
			return lease(scope, broken)
		}
		opened, _ := g.openFile("h", nfs4.ShareRead, 0)
		assert.Equal(t, nfs4.DelegateNone, opened.Delegation.Type)
		fs.lease = func(scope vfs.LeaseScope, broken func()) func() {
			fs.open = errors.New("no descriptors")
			return lease(scope, broken)
		}
		g.makeFileStep("i")
		opened, _ = g.openFile("i", nfs4.ShareRead, 0)
		assert.Equal(t, nfs4.DelegateNone, opened.Delegation.Type)
		assert.Equal(t, 2, back.callCount())
		assert.Zero(t, leases)
		assert.Zero(t, table.Len())
	})
}

// TestOwnOpenToWrite checks that a client that has a read delegation opens the file
// for writing, writes and truncates at once, although it cannot return the delegation before
// it has the replies. Others wait for the delegation all the same.
func TestOwnOpenToWrite(t *testing.T) {
	fs, err := posix.Open(t.TempDir(), posix.Options{StateDir: t.TempDir()})
	require.NoError(t, err)
	defer fs.Close()
	g, back := newDelegServerFor(t, fs, false)
	g.makeFileStep("f")
	d, put := g.openDelegated("f")
	start := time.Now()
	opened, _ := g.openFile("f", nfs4.ShareBoth, 0)
	assert.Equal(t, nfs4.DelegateNone, opened.Delegation.Type)
	set := nfs4.SetAttrArgs{StateID: opened.StateID}
	set.Attrs.Mask = nfs4.BitmapOf(nfs4.AttrSize)
	st, n := g.sendSteps(put, step{nfs4.OpWrite, &nfs4.WriteArgs{StateID: opened.StateID, Data: []byte("x")}, new(nfs4.WriteRes)},
		step{nfs4.OpSetAttr, &set, new(nfs4.SetAttrRes)})
	assert.Equal(t, nfs4.OK, st, n)
	assert.Less(t, time.Since(start), recall.MaxWait)
	require.Eventually(t, func() bool { return back.callCount() == 1 }, 10*time.Second, time.Millisecond)
	o, _ := g.newClientAt("other", "192.0.2.2:700")
	write := step{nfs4.OpWrite, &nfs4.WriteArgs{StateID: nfs4.AnonymousStateID, Data: []byte("y")}, new(nfs4.WriteRes)}
	st, _ = o.sendSteps(put, write)
	assert.Equal(t, nfs4.ErrDelay, st)
	assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))
	st, _ = o.sendSteps(put, write)
	assert.Equal(t, nfs4.OK, st)
}

// TestShareDeniedRecallsNothing checks that an OPEN which fails for a share reservation
// recalls no delegation, and that one which meets the reservation after the recall fails too.
func TestShareDeniedRecallsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newDelegServer(t)
		put := g.makeFileStep("f")
		opened, _ := g.openFile("f", nfs4.ShareRead, nfs4.ShareWrite)
		require.Equal(t, nfs4.DelegateRead, opened.Delegation.Type)
		o, _ := g.newClientAt("other", "192.0.2.2:700")
		open := func(access, deny uint32, how nfs4.CreateMode) nfs4.Status {
			st, _ := o.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpOpen, openArgs("w", "f", access, deny, how), new(nfs4.OpenRes)})
			return st
		}
		assert.Equal(t, nfs4.ErrShareDenied, open(nfs4.ShareWrite, 0, nfs4.NoCreate))
		assert.Equal(t, nfs4.ErrShareDenied, open(nfs4.ShareBoth, 0, nfs4.Unchecked))
		assert.Equal(t, nfs4.ErrShareDenied, open(nfs4.ShareRead, nfs4.ShareRead, nfs4.NoCreate))
		synctest.Wait()
		assert.Zero(t, back.callCount())
		assert.Zero(t, g.s.state.Counts().Recalled)

		st, _ := g.sendSteps(put, step{nfs4.OpClose, &nfs4.CloseArgs{StateID: opened.StateID}, new(nfs4.StateIDRes)})
		require.Equal(t, nfs4.OK, st)
		back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) { // the client opens the file again before it returns the delegation
			claim := openArgs("o", "", nfs4.ShareRead, nfs4.ShareWrite, nfs4.NoCreate)
			claim.Claim = nfs4.ClaimFH
			st, n := g.sendSteps(put, step{nfs4.OpOpen, claim, new(nfs4.OpenRes)})
			assert.Equal(t, nfs4.OK, st, n)
			assert.Equal(t, nfs4.OK, g.returnDelegation(put, opened.Delegation.StateID))
		}
		assert.Equal(t, nfs4.ErrShareDenied, open(nfs4.ShareWrite, 0, nfs4.NoCreate))
		assert.Equal(t, 1, back.callCount())
	})
}

// TestOwnRemove checks that the client's own REMOVE recalls its delegation, even on an
// exclusive export: the name may refer to another file than the client believes.
func TestOwnRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newDelegServer(t)
		put := g.makeFileStep("f")
		d, _ := g.openDelegated("f")
		back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
			assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))
		}
		own := *g
		own.noReclaims = true
		own.sessionAs("client")
		st, _ := own.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("f")}, new(nfs4.ChangeRes)})
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, 1, back.callCount())
	})
}

// TestRecallByExports checks that new export options recall the export's delegations.
func TestRecallByExports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := mem.New(mem.Options{Size: 1 << 20})
		g, back := newDelegServerFor(t, fs, true)
		g.makeFileStep("f")
		g.openDelegated("f")
		require.NoError(t, g.s.exports.SetExports([]exportset.Export{{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{
			NoRootSquash: true, Insecure: true,
		})}}))
		synctest.Wait()
		assert.Equal(t, 1, back.callCount())
	})
}

// TestReadCallback checks that results for another slot, or for another callback in the slot,
// are a fault.
func TestReadCallback(t *testing.T) {
	slot := nfs4state.BackSlot{Slot: 1, Sequence: 5, Highest: 2}
	for _, tt := range []struct {
		slot, sequence uint32
		fault          bool
	}{{1, 5, false}, {2, 5, true}, {1, 4, true}} {
		head, seq := nfs4.CompoundRes{N: 2}, nfs4.CBSequenceRes{Slot: tt.slot, Sequence: tt.sequence, TargetHighestSlotID: 7}
		out := seq.AppendTo(xdr.AppendUint32(head.AppendTo(nil), uint32(nfs4.CBOpSequence)))
		r := xdr.NewReader(xdr.AppendUint32(xdr.AppendUint32(out, uint32(nfs4.CBOpRecall)), uint32(nfs4.ErrDelay)))
		o := parseCallbackReply(&r, slot, nfs4.CBOpRecall)
		assert.Equal(t, tt.fault, o.isFault)
		if !tt.fault {
			assert.Equal(t, callbackOutcome{slotUsed: true, target: 7, status: nfs4.ErrDelay}, o)
		}
	}
}
