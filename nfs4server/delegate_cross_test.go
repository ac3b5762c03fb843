package nfs4server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A meddler is a file system in which something happens while a file is opened.
type meddler struct {
	*mem.FS
	meddle func() // at the next open, once
}

func (m *meddler) Access(ctx context.Context, c *vfs.Cred, h vfs.Handle, mask uint32) (uint32, vfs.MaybeAttr, error) {
	if f := m.meddle; f != nil {
		m.meddle = nil
		f()
	}
	return m.FS.Access(ctx, c, h, mask)
}

// TestDelegationOfOldExport checks that an OPEN which runs while the exports change
// gets no delegation: the new options may not permit it, and nothing would recall it.
func TestDelegationOfOldExport(t *testing.T) {
	fs := &meddler{FS: mem.New(mem.Options{Size: 1 << 20})}
	g, _ := delegRigOf(t, fs, true)
	g.file("f")
	fs.meddle = func() {
		require.NoError(t, g.s.realm.SetExports([]realm.Export{{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{
			NoRootSquash: true, Insecure: true,
		})}}))
		g.s.ExportsChanged()
	}
	opened, _ := g.openFile("f", nfs4.ShareRead, 0)
	require.Nil(t, fs.meddle)
	assert.Equal(t, nfs4.DelegateNone, opened.Delegation.Type)
	assert.Zero(t, g.s.realm.Holders().Len())
}

// TestRecallByCreation checks that an exclusive OPEN which finds the file that the
// client has made before is an OPEN of an existing file: it recalls delegations.
func TestRecallByCreation(t *testing.T) {
	for name, open := range map[string]func(a *nfs4.OpenArgs){
		"to write":            func(*nfs4.OpenArgs) {},
		"that denies to read": func(a *nfs4.OpenArgs) { a.ShareAccess, a.ShareDeny = nfs4.ShareRead, nfs4.ShareRead },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, back := delegRig(t)
				o, _ := g.clientAt("other", "192.0.2.2:700")
				a := openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Exclusive1)
				opened, fh, st := o.open(a)
				require.Equal(t, nfs4.OK, st)
				require.Equal(t, nfs4.OK, o.close(fh, opened.StateID))
				reading, put := g.openFile("f", nfs4.ShareRead, 0)
				d := reading.Delegation
				require.Equal(t, nfs4.DelegateRead, d.Type)
				require.Equal(t, nfs4.OK, g.close(fh, reading.StateID))
				back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
					time.Sleep(300 * time.Millisecond)
					assert.Equal(t, nfs4.OK, g.give(put, d.StateID))
				}
				open(a)
				start := time.Now()
				_, _, st = o.open(a)
				require.Equal(t, nfs4.OK, st)
				assert.Equal(t, 300*time.Millisecond, time.Since(start))
				assert.Equal(t, 1, back.count())
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
		g, back := delegRig(t)
		const lost = 3 * maxCallers
		name := func(i int) string { return string(rune('a' + i)) }
		for i := range lost {
			g.file(name(i))
			g.delegated(name(i))
		}
		put := g.file("last")
		last, _ := g.delegated("last")
		back.answer = func(n int) (seq, op nfs4.Status, err error) {
			back.mu.Lock()
			defer back.mu.Unlock()
			if back.calls[n].StateID.Other != last.StateID.Other {
				return nfs4.OK, nfs4.ErrBadStateID, nil
			}
			return nfs4.OK, nfs4.OK, nil
		}
		back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) { assert.Equal(t, nfs4.OK, g.give(put, last.StateID)) }
		o, _ := g.clientAt("other", "192.0.2.2:700")
		remove := func(name string) nfs4.Status {
			st, _ := o.do(root(), look("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte(name)}, new(nfs4.ChangeRes)})
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

// TestRecallEnds checks that nothing of a recall is left once the client has returned
// the delegation.
func TestRecallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := delegRig(t)
		put := g.file("f")
		given, _ := g.delegated("f")
		d, status := g.s.state.DelegationOf(g.s.state.Session(g.session), &given.StateID)
		require.Equal(t, nfs4.OK, status)
		back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) { assert.Equal(t, nfs4.OK, g.give(put, given.StateID)) }
		g.s.realm.Holders().RecallAll()
		time.Sleep(time.Second)
		assert.Zero(t, g.s.realm.Holders().Len())
		assert.False(t, d.File.(*delegated).late.Load().Stop(), "the timer runs")
		g.s.callbacks.mu.Lock()
		defer g.s.callbacks.mu.Unlock()
		assert.Empty(t, g.s.callbacks.clients)
	})
}

// A leaser is a file system whose leases are the test's.
type leaser struct {
	*mem.FS
	lease func(scope vfs.LeaseScope, broken func()) (release func())
	open  error // of opening a file
}

func (l *leaser) Lease(_ context.Context, _ *vfs.Cred, _ vfs.Handle, scope vfs.LeaseScope, broken func()) (func(), error) {
	return l.lease(scope, broken), nil
}

func (l *leaser) OpenFile(ctx context.Context, c *vfs.Cred, h vfs.Handle, access vfs.OpenAccess) (vfs.Opened, error) {
	if l.open != nil {
		return vfs.Opened{}, l.open
	}
	return l.FS.OpenFile(ctx, c, h, access)
}

// TestDelegationLease checks that a delegation of a file that processes of the host
// may change has a lease of all changes, which ends before the client's own change,
// or with a delegation that is not granted after all.
func TestDelegationLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &leaser{FS: mem.New(mem.Options{Size: 1 << 20})}
		g, back := delegRigOf(t, fs, false)
		table := g.s.realm.Holders()
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
		put := g.file("f")
		d, _ := g.delegated("f")
		assert.Equal(t, 1, leases)
		back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) { assert.Equal(t, nfs4.OK, g.give(put, d.StateID)) }
		chmod := nfs4.SetAttrArgs{}
		chmod.Attrs.Mask, chmod.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), 0o600
		own := *g // the client's calls in another session: g gives the delegation meanwhile
		own.noReclaims = true
		own.sessionAs("client")
		st, _ := own.do(put, step{nfs4.OpSetAttr, &chmod, new(nfs4.SetAttrRes)})
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, 1, back.count(), "the client's own change breaks the lease")
		assert.Zero(t, leases)
		synctest.Wait() // g is free

		// A process of the host.
		put = g.file("g")
		d, _ = g.delegated("g")
		breaks()
		time.Sleep(time.Second)
		assert.Equal(t, 2, back.count())
		assert.Zero(t, leases)

		// A change before the delegation is granted.
		g.file("h")
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
		g.file("i")
		opened, _ = g.openFile("i", nfs4.ShareRead, 0)
		assert.Equal(t, nfs4.DelegateNone, opened.Delegation.Type)
		assert.Equal(t, 2, back.count())
		assert.Zero(t, leases)
		assert.Zero(t, table.Len())
	})
}

// TestOwnRemove checks that the client's own REMOVE recalls its delegation, also on an
// exclusive export: the name may be of another file than the client believes.
func TestOwnRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := delegRig(t)
		put := g.file("f")
		d, _ := g.delegated("f")
		back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) { assert.Equal(t, nfs4.OK, g.give(put, d.StateID)) }
		own := *g
		own.noReclaims = true
		own.sessionAs("client")
		st, _ := own.do(root(), look("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("f")}, new(nfs4.ChangeRes)})
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, 1, back.count())
	})
}

// TestRecallByExports checks that new options of an export recall its delegations.
func TestRecallByExports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := mem.New(mem.Options{Size: 1 << 20})
		g, back := delegRigOf(t, fs, true)
		g.file("f")
		g.delegated("f")
		require.NoError(t, g.s.realm.SetExports([]realm.Export{{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{
			NoRootSquash: true, Insecure: true,
		})}}))
		g.s.ExportsChanged()
		synctest.Wait()
		assert.Equal(t, 1, back.count())
	})
}

// TestReadCallback checks that the results of another slot, or of another callback in
// the slot, are a fault.
func TestReadCallback(t *testing.T) {
	slot := nfs4state.BackSlot{Slot: 1, Sequence: 5, Highest: 2}
	for _, tt := range []struct {
		slot, sequence uint32
		fault          bool
	}{{1, 5, false}, {2, 5, true}, {1, 4, true}} {
		head, seq := nfs4.CompoundRes{N: 2}, nfs4.CBSequenceRes{Slot: tt.slot, Sequence: tt.sequence, TargetHighestSlotID: 7}
		out := seq.AppendTo(xdr.AppendUint32(head.AppendTo(nil), uint32(nfs4.CBOpSequence)))
		r := xdr.NewReader(xdr.AppendUint32(xdr.AppendUint32(out, uint32(nfs4.CBOpRecall)), uint32(nfs4.ErrDelay)))
		o := readCallback(&r, slot, nfs4.CBOpRecall)
		assert.Equal(t, tt.fault, o.fault)
		if !tt.fault {
			assert.Equal(t, callbackOutcome{used: true, target: 7, status: nfs4.ErrDelay}, o)
		}
	}
}
