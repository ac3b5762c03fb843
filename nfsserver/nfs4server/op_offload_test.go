package nfs4server

import (
	"context"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A fakeHeldFS holds reads beyond an offset until it is let go.
type fakeHeldFS struct {
	*mem.FS
	from    atomic.Uint64
	release chan struct{}
	fails   atomic.Bool
}

func newFakeHeldFS() *fakeHeldFS {
	return &fakeHeldFS{FS: mem.New(mem.Options{Size: 1 << 30}), release: make(chan struct{})}
}

func (f *fakeHeldFS) Read(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64) (int, bool, vfs.MaybeAttr, error) {
	if from := f.from.Load(); from > 0 && off >= from {
		<-f.release
		if f.fails.Load() {
			return 0, false, vfs.MaybeAttr{}, syscall.EIO
		}
	}
	return f.FS.Read(ctx, c, h, p, off)
}

const offloadSize = 40 << 20

// newOffloadServer has two files, the first of which is large.
func newOffloadServer(t *testing.T) (g *testServer, fs *fakeHeldFS, back *fakeBackchannel, src, dst step, ended chan nfs4.CBOffloadArgs) {
	fs = newFakeHeldFS()
	g, back, src, dst, ended = newOffloadServerFor(t, fs)
	return g, fs, back, src, dst, ended
}

func newOffloadServerFor(t *testing.T, fs vfs.FS) (g *testServer, back *fakeBackchannel, src, dst step, ended chan nfs4.CBOffloadArgs) {
	g, back = newDelegServerFor(t, fs, true)
	src, dst = g.makeFileStep("src"), g.makeFileStep("dst")
	require.Equal(t, nfs4.OK, g.setAttrs(src.args.(*nfs4.HandleArgs).Object, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: offloadSize}))
	ended = make(chan nfs4.CBOffloadArgs, 16)
	back.offload = func(a nfs4.CBOffloadArgs) { ended <- a }
	return g, back, src, dst, ended
}

// copyWholeFile sends COPY for all of src, without requiring a synchronous copy.
func (g *testServer) copyWholeFile(src, dst step, synchronous bool) nfs4.CopyRes {
	g.t.Helper()
	var res nfs4.CopyRes
	st, _ := g.sendSteps(src, step{nfs4.OpSaveFH, &void, newStatusRes()}, dst, step{nfs4.OpCopy, &nfs4.CopyArgs{Consecutive: true, Synchronous: synchronous}, &res})
	require.Equal(g.t, nfs4.OK, st)
	return res
}

func (g *testServer) offloadStatus(dst step, id nfs4.StateID) (nfs4.OffloadStatusRes, nfs4.Status) {
	g.t.Helper()
	var res nfs4.OffloadStatusRes
	st, _ := g.sendSteps(dst, step{nfs4.OpOffloadStatus, &nfs4.StateIDArgs{StateID: id}, &res})
	return res, st
}

func (g *testServer) offloadCancel(dst step, id nfs4.StateID) nfs4.Status {
	g.t.Helper()
	st, _ := g.sendSteps(dst, step{nfs4.OpOffloadCancel, &nfs4.StateIDArgs{StateID: id}, newStatusRes()})
	return st
}

// TestOffload checks a copy that continues after its reply: CB_OFFLOAD tells of its end
// (R7862-4.1.2-3), without a stateid in it (R7862-16.1-2), after COPY (R7862-16.1-3),
// and again if it was lost (R7862-16.1-4), whatever OFFLOAD_STATUS has told
// (R7862-15.9-2). The stateid is good until then (R7862-4.8-2, R7862-4.4-1).
func TestOffload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, back, src, dst, ended := newOffloadServer(t)
		res := g.copyWholeFile(src, dst, true)
		assert.False(t, res.Response.HasCallback, "R7862-15.2-11")
		assert.EqualValues(t, maxCopy, res.Response.Count)
		var found atomic.Bool
		back.answer = func(int) (nfs4.Status, nfs4.Status, error) {
			if !found.Load() {
				return nfs4.OK, nfs4.OK, syscall.EPIPE
			}
			return nfs4.OK, nfs4.OK, nil
		}
		res = g.copyWholeFile(src, dst, false)
		referring := g.seq
		require.True(t, res.Response.HasCallback)
		assert.False(t, res.Synchronous)
		id := res.Response.Callback
		assert.NotZero(t, id.SeqID, "R7862-4.8-1")
		synctest.Wait()
		first := <-ended
		got, st := g.offloadStatus(dst, id)
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, nfs4.OffloadStatusRes{Count: offloadSize, Done: true}, got, "R7862-15.9-1")
		assert.Equal(t, nfs4.ErrCompleteAlready, g.offloadCancel(dst, id), "R7862-15.8-2")
		found.Store(true)
		second := <-ended
		synctest.Wait()
		assert.Equal(t, first, second)
		assert.Equal(t, id, first.StateID)
		assert.Equal(t, dst.args.(*nfs4.HandleArgs).Object, first.Object)
		assert.Equal(t, nfs4.OK, first.Status)
		assert.Equal(t, nfs4.WriteResponse{Count: offloadSize, Committed: first.Response.Committed, Verf: res.Response.Verf}, first.Response)
		assert.Equal(t, []nfs4.ReferringCall{{Sequence: referring}}, back.seqs[0].Referring[0].Calls)
		_, st = g.offloadStatus(dst, id)
		assert.Equal(t, nfs4.ErrBadStateID, st)
		assert.EqualValues(t, offloadSize, g.getAttrs(dst.args.(*nfs4.HandleArgs).Object, nfs4.BitmapOf(nfs4.AttrSize)).Size)
		time.Sleep(recallLease)
		assert.Empty(t, ended)
	})
}

// TestOffloadCancel checks that a copy is found and ended by its own client and user
// alone (R7862-4.1.2-5, R7862-4.1.2-6), by the file and the whole stateid, and that nothing is
// written after the reply (R7862-15.8-1, R7862-4.8-2).
func TestOffloadCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fs, _, src, dst, ended := newOffloadServer(t)
		fs.from.Store(20 << 20)
		id := g.copyWholeFile(src, dst, false).Response.Callback
		synctest.Wait()
		got, st := g.offloadStatus(dst, id)
		assert.Equal(t, nfs4.OK, st)
		assert.False(t, got.Done)
		assert.EqualValues(t, maxCopy, got.Count)
		other, _ := g.newClientAt("other", "192.0.2.2:700")
		zero, user := id, *g
		zero.SeqID = 0
		user.cred.UID = 7
		assert.Equal(t, nfs4.ErrBadStateID, other.offloadCancel(dst, id))
		assert.Equal(t, nfs4.ErrBadStateID, g.offloadCancel(dst, zero), "R7862-4.8-1")
		assert.Equal(t, nfs4.ErrBadStateID, g.offloadCancel(src, id))
		user.seq = g.seq
		assert.Equal(t, nfs4.ErrBadStateID, user.offloadCancel(dst, id))
		g.seq = user.seq
		time.AfterFunc(time.Second, func() { close(fs.release) })
		assert.Equal(t, nfs4.OK, g.offloadCancel(dst, id))
		size := g.getAttrs(dst.args.(*nfs4.HandleArgs).Object, nfs4.BitmapOf(nfs4.AttrSize)).Size
		assert.Less(t, size, uint64(offloadSize))
		time.Sleep(recallLease)
		assert.Equal(t, size, g.getAttrs(dst.args.(*nfs4.HandleArgs).Object, nfs4.BitmapOf(nfs4.AttrSize)).Size)
		assert.Empty(t, ended)
		assert.Equal(t, nfs4.ErrBadStateID, g.offloadCancel(dst, id))
	})
}

// TestOffloadCancelHung checks that OFFLOAD_CANCEL does not wait for storage that does not
// answer, and that the copy ends when it does.
func TestOffloadCancelHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fs, _, src, dst, ended := newOffloadServer(t)
		fs.from.Store(20 << 20)
		id := g.copyWholeFile(src, dst, false).Response.Callback
		synctest.Wait()
		begun := time.Now()
		assert.Equal(t, nfs4.ErrDelay, g.offloadCancel(dst, id))
		assert.Equal(t, cancelTime, time.Since(begun))
		_, st := g.offloadStatus(dst, id)
		assert.Equal(t, nfs4.OK, st)
		close(fs.release)
		synctest.Wait()
		assert.Equal(t, nfs4.ErrBadStateID, g.offloadCancel(dst, id))
		assert.Empty(t, g.s.offloads.byID)
		assert.Empty(t, ended)
	})
}

// TestOffloadParties checks that the clients at one address leave places for others, and get
// them back.
func TestOffloadParties(t *testing.T) {
	all := newOffloads()
	add := func(client, host byte) *offload {
		o := &offload{client: uint64(host)<<8 | uint64(client), party: fairshare.PartyOfIP(netip.AddrFrom4([4]byte{192, 0, 2, host}))}
		o.id.Other = [nfs4.OtherSize]byte{host, client, byte(len(all.byID)), byte(len(all.byID) >> 8)}
		if !all.add(o) {
			return nil
		}
		return o
	}
	var of []*offload
	for client := range byte(255) {
		for range maxOffloads {
			if o := add(client, 1); o != nil {
				of = append(of, o)
			}
		}
	}
	assert.Len(t, of, maxAllOffloads/2)
	assert.NotNil(t, add(1, 2))
	for range 2 {
		all.remove(of[0])
	}
	assert.NotNil(t, add(0, 1))
	assert.Nil(t, add(255, 1))
}

// TestOffloadEnds checks that a copy ends with its client (R7862-15.2-18) and with the
// server, that a failed one tells how far it came, and that a client has few at once.
func TestOffloadEnds(t *testing.T) {
	t.Run("failure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, fs, _, src, dst, ended := newOffloadServer(t)
			fs.from.Store(20 << 20)
			fs.fails.Store(true)
			close(fs.release)
			id := g.copyWholeFile(src, dst, false).Response.Callback
			a := <-ended
			assert.Equal(t, id, a.StateID)
			assert.Equal(t, nfs4.ErrIO, a.Status)
			assert.EqualValues(t, 20<<20, a.Copied, "R7862-15.2-15")
		})
	})
	t.Run("client", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, fs, _, src, dst, ended := newOffloadServer(t)
			fs.from.Store(20 << 20)
			g.copyWholeFile(src, dst, false)
			synctest.Wait()
			client := g.s.state.Session(g.session).ClientID()
			assert.Equal(t, nfs4.ErrDelay, g.s.state.Expire(client), "it may still write")
			close(fs.release)
			synctest.Wait()
			assert.Equal(t, nfs4.OK, g.s.state.Expire(client))
			assert.Empty(t, g.s.offloads.byID)
			assert.Empty(t, ended)
		})
	})
	t.Run("new instance", func(t *testing.T) { // R7862-14.1-2
		synctest.Test(t, func(t *testing.T) {
			g, fs, _, src, dst, ended := newOffloadServer(t)
			fs.from.Store(20 << 20)
			g.copyWholeFile(src, dst, false)
			synctest.Wait()
			_, st := g.exchangeID("client", 9, 0)
			assert.Equal(t, nfs4.ErrDelay, st, "it may still write")
			close(fs.release)
			synctest.Wait()
			assert.Empty(t, g.s.offloads.byID)
			assert.Empty(t, ended)
			_, st = g.exchangeID("client", 9, 0)
			assert.Equal(t, nfs4.OK, st)
			assert.Less(t, g.getAttrs(handleInStep(dst), nfs4.BitmapOf(nfs4.AttrSize)).Size, uint64(offloadSize))
		})
	})
	t.Run("server", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, fs, _, src, dst, _ := newOffloadServer(t)
			fs.from.Store(20 << 20)
			g.copyWholeFile(src, dst, false)
			synctest.Wait()
			time.AfterFunc(time.Second, func() { close(fs.release) })
			g.s.Close()
			assert.Empty(t, g.s.offloads.byID)
		})
	})
	t.Run("many", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, fs, _, src, dst, ended := newOffloadServer(t)
			fs.from.Store(20 << 20)
			for i := range maxOffloads + 1 {
				assert.Equal(t, i < maxOffloads, g.copyWholeFile(src, dst, false).Response.HasCallback)
			}
			close(fs.release)
			for range maxOffloads {
				assert.Equal(t, nfs4.OK, (<-ended).Status)
			}
			synctest.Wait()
			assert.True(t, g.copyWholeFile(src, dst, false).Response.HasCallback)
			<-ended
			g.peer.Reverse = nil
			deaf, _ := g.newClientAt("deaf", "192.0.2.3:700")
			deaf.flags, deaf.peer.Reverse = 0, nil
			deaf.connectAs("deaf too")
			assert.False(t, deaf.copyWholeFile(src, dst, false).Response.HasCallback, "the client cannot be called")
		})
	})
}
