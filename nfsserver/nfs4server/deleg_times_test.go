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
)

// fileTimes are the attributes that a change of times may change.
var fileTimes = nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrTimeAccess, nfs4.AttrTimeMetadata, nfs4.AttrTimeModify)

// openWithTimes makes a file, lets a minute pass, and opens the file for writing with an attribute
// delegation. It returns the file's times.
func (g *testServer) openWithTimes(name string) (nfs4.OpenRes, step, nfs4.Attrs) {
	g.t.Helper()
	put := g.makeFileStep(name)
	time.Sleep(time.Minute)
	opened, _ := g.openFile(name, nfs4.ShareBoth|nfs4.WantDelegTimestamps, 0)
	require.Equal(g.t, nfs4.DelegateWriteAttrs, opened.Delegation.Type, "R9754-5-3")
	return opened, put, g.getAttrs(put.args.(*nfs4.HandleArgs).Object, fileTimes)
}

// after returns the time so long after t.
func after(t nfs4.Time, d time.Duration) nfs4.Time {
	at := time.Unix(t.Sec, int64(t.Nsec)).Add(d)
	return nfs4.Time{Sec: at.Unix(), Nsec: uint32(at.Nanosecond())}
}

// present returns the present time.
func present() nfs4.Time { return after(nfs4.Time{}, time.Duration(time.Now().UnixNano())) }

// timesOf returns delegated times. A nil time is not in the list.
func timesOf(access, modify *nfs4.Time) (a nfs4.Attrs) {
	if access != nil {
		a.Mask.Set(nfs4.AttrTimeDelegAccess)
		a.TimeDelegAccess = *access
	}
	if modify != nil {
		a.Mask.Set(nfs4.AttrTimeDelegModify)
		a.TimeDelegModify = *modify
	}
	return a
}

// setTimes is SETATTR of delegated times with a stateid. It returns the times that were set.
func (g *testServer) setTimes(put step, id nfs4.StateID, a nfs4.Attrs) (nfs4.Bitmap, nfs4.Status) {
	g.t.Helper()
	var res nfs4.SetAttrRes
	st, _ := g.sendSteps(put.withNewResults(), step{nfs4.OpSetAttr, &nfs4.SetAttrArgs{StateID: id, Attrs: a}, &res})
	return res.AttrsSet, st
}

// TestQueryDelegatedTimes checks that other clients see the times that the holder of an attribute
// delegation reports, within bounds, and that the change attribute and time_metadata move with a new
// modification time, and not with an access time. R9754-5-1, R9754-5-5, R9754-5-6, R9754-5-8.
func TestQueryDelegatedTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newWriteDelegServer(t)
		opened, put, start := g.openWithTimes("f")
		fh := put.args.(*nfs4.HandleArgs).Object
		report := nfs4.Attrs{}
		queries := 0
		back.getattr = func(_ context.Context, a nfs4.CBGetAttrArgs) (res nfs4.GetAttrRes, err error) {
			assert.Equal(t, nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrTimeDelegAccess, nfs4.AttrTimeDelegModify), a.Request)
			queries++
			res.Attrs = report
			res.Attrs.Mask.Set(nfs4.AttrChange)
			res.Attrs.Mask.Set(nfs4.AttrSize)
			res.Attrs.Change, res.Attrs.Size = start.Change, start.Size
			return res, nil
		}
		o, _ := g.newClientAt("other", "192.0.2.2:700")
		read, written, future := after(start.TimeAccess, 10*time.Second), after(start.TimeModify, 20*time.Second), after(present(), time.Hour)
		past, broken := after(start.TimeModify, -time.Second), nfs4.Time{Sec: written.Sec, Nsec: 1e9}
		for _, tt := range []struct {
			name           string
			report         nfs4.Attrs
			access, modify nfs4.Time
			moves          bool
		}{
			{"nothing", timesOf(nil, nil), start.TimeAccess, start.TimeModify, false},
			{"before the delegation", timesOf(&past, &past), start.TimeAccess, start.TimeModify, false},
			{"no times", timesOf(&broken, &broken), start.TimeAccess, start.TimeModify, false},
			{"read", timesOf(&read, &start.TimeModify), read, start.TimeModify, false},
			{"written", timesOf(&read, &written), read, written, true},
			{"again", timesOf(&read, &written), read, written, false},
			{"in the future", timesOf(&future, &future), present(), present(), true},
		} {
			last := g.getAttrs(fh, fileTimes)
			asked := queries
			report = tt.report
			got := o.getAttrs(fh, fileTimes)
			assert.Equal(t, asked+1, queries, tt.name)
			assert.Equal(t, []nfs4.Time{tt.access, tt.modify}, []nfs4.Time{got.TimeAccess, got.TimeModify}, tt.name)
			assert.Equal(t, tt.moves, got.Change > last.Change, tt.name)
			assert.Equal(t, tt.moves, got.TimeMetadata != last.TimeMetadata, tt.name)
		}
		only := o.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrTimeAccess))
		assert.Equal(t, present(), only.TimeAccess, "the client is queried for the access time alone, too")
		assert.Zero(t, back.callCount(), "nothing is recalled")
		assert.Equal(t, nfs4.OK, g.returnDelegation(put, opened.Delegation.StateID))
	})
}

// TestSetDelegatedTimes checks SETATTR of delegated times by another user than the owner, who may write
// but set no times: the same bounds hold, and a write back in between does not move them. R9754-5-2,
// R9754-5-5, R9754-5-6, R9754-5-7, R9754-5-8.
func TestSetDelegatedTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := newWriteDelegServer(t)
		put := g.makeFileStep("f")
		fh := put.args.(*nfs4.HandleArgs).Object
		require.Equal(t, nfs4.OK, g.setAttrs(fh, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: 0o666}))
		g.cred.UID, g.cred.GID = 1000, 1000
		time.Sleep(time.Minute)
		opened, _ := g.openFile("f", nfs4.ShareBoth|nfs4.WantDelegTimestamps|nfs4.WantOpenXorDelegation, 0)
		require.Equal(t, nfs4.DelegateWriteAttrs, opened.Delegation.Type)
		require.NotZero(t, opened.Flags&nfs4.OpenNoOpenStateID)
		id := opened.Delegation.StateID
		start := g.getAttrs(fh, fileTimes)
		time.Sleep(time.Minute)
		require.Equal(t, nfs4.OK, g.writeAtStart(put, id, "HELLO"))

		read, written, future := after(start.TimeAccess, 10*time.Second), after(start.TimeModify, 20*time.Second), after(present(), time.Hour)
		past := after(start.TimeModify, -time.Second)
		both := nfs4.BitmapOf(nfs4.AttrTimeDelegAccess, nfs4.AttrTimeDelegModify)
		for _, tt := range []struct {
			name           string
			a              nfs4.Attrs
			set            nfs4.Bitmap
			access, modify nfs4.Time
		}{
			{"written", timesOf(&read, &written), both, read, written},
			{"before the delegation", timesOf(&past, &past), nfs4.Bitmap{}, read, written},
			{"only read", timesOf(&written, nil), nfs4.Bitmap{}, read, written},
			{"in the future", timesOf(&future, &future), both, present(), present()},
			{"back", timesOf(nil, &written), nfs4.BitmapOf(nfs4.AttrTimeDelegModify), present(), written},
		} {
			last := g.getAttrs(fh, fileTimes)
			set, st := g.setTimes(put, id, tt.a)
			require.Equal(t, nfs4.OK, st, tt.name)
			assert.Equal(t, tt.set, set, tt.name)
			got := g.getAttrs(fh, fileTimes)
			assert.Equal(t, []nfs4.Time{tt.access, tt.modify}, []nfs4.Time{got.TimeAccess, got.TimeModify}, tt.name)
			assert.Equal(t, !set.Empty(), got.Change > last.Change, tt.name)
			assert.Equal(t, !set.Empty(), got.TimeMetadata != last.TimeMetadata, tt.name)
		}

		// SETATTR may precede DELEGRETURN in one COMPOUND.
		st, _ := g.sendSteps(put.withNewResults(), step{nfs4.OpSetAttr, &nfs4.SetAttrArgs{StateID: id, Attrs: timesOf(&written, &written)}, new(nfs4.SetAttrRes)},
			step{nfs4.OpDelegReturn, &nfs4.StateIDArgs{StateID: id}, newStatusRes()})
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, written, g.getAttrs(fh, fileTimes).TimeModify)
		_, st = g.setTimes(put, id, timesOf(&read, &read))
		assert.Equal(t, nfs4.ErrBadStateID, st)
	})
}

// TestDelegatedTimesDenied checks who can set no delegated times: other users and clients, the holder
// of any other stateid, and all in a read-only export. R9754-5-4.
func TestDelegatedTimesDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := newWriteDelegServer(t)
		opened, put, start := g.openWithTimes("f")
		fh := put.args.(*nfs4.HandleArgs).Object
		id := opened.Delegation.StateID
		plain, plainPut := g.openForWriting("plain")
		reading, _ := g.openFile("plain", nfs4.ShareRead|nfs4.WantDelegTimestamps, 0)
		g.makeFileStep("read")
		later := after(start.TimeModify, time.Second)
		a := timesOf(&later, &later)
		deny := func(want nfs4.Status, put step, id nfs4.StateID, a nfs4.Attrs, why string) {
			t.Helper()
			_, st := g.setTimes(put, id, a)
			assert.Equal(t, want, st, why)
		}
		deny(nfs4.ErrBadStateID, put, opened.StateID, a, "an open")
		deny(nfs4.ErrBadStateID, put, nfs4.AnonymousStateID, a, "the anonymous stateid")
		deny(nfs4.ErrBadStateID, put, nfs4.BypassStateID, a, "the bypass stateid")
		deny(nfs4.ErrBadStateID, put, nfs4.CurrentStateID, a, "no current stateid")
		deny(nfs4.ErrBadStateID, plainPut, id, a, "another file")
		deny(nfs4.ErrBadStateID, plainPut, plain.Delegation.StateID, a, "a delegation without attributes")
		deny(nfs4.ErrBadStateID, plainPut, reading.StateID, a, "an open with a wish")
		deny(nfs4.ErrBadStateID, step{nfs4.OpPutRootFH, &void, newStatusRes()}, id, a, "the pseudo root")
		mixed, broken := a, a
		mixed.Mask.Set(nfs4.AttrMode)
		broken.TimeDelegAccess.Nsec = 1e9
		deny(nfs4.ErrInval, put, id, mixed, "other attributes")
		deny(nfs4.ErrInval, put, id, broken, "no time")
		g.cred.UID, g.cred.GID = 1000, 1000
		deny(nfs4.ErrAccess, put, id, a, "another user of the client")
		g.cred.UID, g.cred.GID = 0, 0
		g.minor = nfs4.Minor1
		deny(nfs4.ErrAttrNotSupp, put, id, a, "minor version 1")
		g.minor = nfs4.Minor2
		other, _ := g.newClientAt("other", "192.0.2.2:700")
		_, st := other.setTimes(put, id, a)
		assert.Equal(t, nfs4.ErrBadStateID, st, "another client")
		read, readPut := g.openFile("read", nfs4.ShareRead|nfs4.WantDelegTimestamps, 0)
		require.Equal(t, nfs4.DelegateRead, read.Delegation.Type)
		deny(nfs4.ErrBadStateID, readPut, read.Delegation.StateID, a, "a read delegation has no attributes")
		for _, op := range []step{
			{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: delegatedTimes}, new(nfs4.GetAttrRes)},
			{nfs4.OpVerify, &nfs4.VerifyArgs{Attrs: a}, newStatusRes()},
			{nfs4.OpNVerify, &nfs4.VerifyArgs{Attrs: a}, newStatusRes()},
		} {
			st, _ := g.sendSteps(put.withNewResults(), op)
			assert.Equal(t, nfs4.ErrInval, st, op.op)
		}
		have := g.getAttrs(fh, fileTimes)
		assert.Equal(t, start, have, "nothing has changed")
		supported := g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrSupportedAttrs, nfs4.AttrOpenArguments))
		assert.Equal(t, delegatedTimes, supported.SupportedAttrs.And(delegatedTimes))
		assert.NotZero(t, supported.OpenArguments.ShareAccessWant.Words[0]&nfs4.WantDelegTimestamps)

		list := g.s.exports.Exports()
		list[0].Clients = exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true, Exclusive: true, ReadOnly: true})
		require.NoError(t, g.s.exports.SetExports(list))
		deny(nfs4.ErrROFS, put, id, a, "the export is read-only now")

		g.s.writeDelegations = false
		deny(nfs4.ErrAttrNotSupp, put, id, a, "no write delegations")
		supported = g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrSupportedAttrs, nfs4.AttrOpenArguments, nfs4.AttrTimeDelegAccess))
		assert.Zero(t, supported.SupportedAttrs.And(delegatedTimes))
		assert.Zero(t, supported.OpenArguments.ShareAccessWant.Words[0]&nfs4.WantDelegTimestamps)
	})
}

// TestRevokedDelegatedTimes checks that a client that has not returned its delegation in time sets no
// times, and is not queried for them. R9754-5-4.
func TestRevokedDelegatedTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newWriteDelegServer(t)
		opened, put, start := g.openWithTimes("f")
		back.answer = func(int) (seq, op nfs4.Status, err error) { return 0, 0, errors.New("connection reset") }
		g.s.exports.Holders().RecallAll()
		for range 5 {
			time.Sleep(recallLease / 4)
			synctest.Wait()
			st, _ := g.sendSteps()
			require.Equal(t, nfs4.OK, st)
		}
		later := present()
		_, st := g.setTimes(put, opened.Delegation.StateID, timesOf(&later, &later))
		assert.Equal(t, nfs4.ErrDelegRevoked, st)
		back.getattr = func(context.Context, nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) {
			assert.Fail(t, "the client is queried")
			return nfs4.GetAttrRes{}, nil
		}
		o, _ := g.newClientAt("other", "192.0.2.2:700")
		assert.Equal(t, start, o.getAttrs(put.args.(*nfs4.HandleArgs).Object, fileTimes))
	})
}

// TestReclaimDelegatedTimes checks that after a restart a client gets its attribute delegation again,
// and that no other client gets anything by claiming one.
func TestReclaimDelegatedTimes(t *testing.T) {
	g, _ := newWriteDelegServer(t)
	state := t.TempDir()
	g.restartServer(state, 8)
	g.newCallableClient("client", "192.0.2.1:700")
	put := g.makeFileStep("f")
	fh := put.args.(*nfs4.HandleArgs).Object
	g.openFile("f", nfs4.ShareBoth|nfs4.WantDelegTimestamps, 0)

	g.restartServer(state, 9)
	g.noReclaims = true
	g.newCallableClient("client", "192.0.2.1:700")
	_, st := g.reclaimOpen(fh, nfs4.ShareBoth, 0, nfs4.DelegateReadAttrs)
	assert.Equal(t, nfs4.ErrReclaimBad, st, "read delegations have no attributes")
	opened, st := g.reclaimOpen(fh, nfs4.ShareBoth, 0, nfs4.DelegateWriteAttrs)
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.DelegateWriteAttrs, opened.Delegation.Type)
	_, st = g.setTimes(put, opened.Delegation.StateID, timesOf(nil, &nfs4.Time{}))
	assert.Equal(t, nfs4.OK, st)
}
