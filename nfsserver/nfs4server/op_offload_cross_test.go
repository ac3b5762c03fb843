package nfs4server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// copyWithStateIDs is copyWholeFile by stateids.
func (g *testServer) copyWithStateIDs(src, dst step, a nfs4.CopyArgs) nfs4.CopyRes {
	g.t.Helper()
	var res nfs4.CopyRes
	a.Consecutive = true
	st, _ := g.sendSteps(src, step{nfs4.OpSaveFH, &void, newStatusRes()}, dst, step{nfs4.OpCopy, &a, &res})
	require.Equal(g.t, nfs4.OK, st)
	return res
}

// handleInStep returns the filehandle in a PUTFH.
func handleInStep(put step) nfs4.FH { return put.args.(*nfs4.HandleArgs).Object }

// TestOffloadAndSessions checks that a copy outlives the session that has requested it,
// also the client's last one (R7862-4.8-2).
func TestOffloadAndSessions(t *testing.T) {
	for name, last := range map[string]bool{"another is left": false, "none is left": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, fs, _, src, dst, _ := newOffloadServer(t)
				fs.from.Store(20 << 20)
				id := g.copyWholeFile(src, dst, false).Response.Callback
				synctest.Wait()
				o := *g
				o.noReclaims = true
				connect := func() *fakeBackchannel { return o.newCallableClient("client", "192.0.2.1:701") }
				var back *fakeBackchannel
				if !last {
					back = connect()
				}
				st, _ := g.sendRaw(step{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: g.session}, newStatusRes()})
				require.Equal(t, nfs4.OK, st)
				if last {
					back = connect()
				}
				ended := make(chan nfs4.CBOffloadArgs, 1)
				back.offload = func(a nfs4.CBOffloadArgs) { ended <- a }
				got, st := o.offloadStatus(dst, id)
				assert.Equal(t, nfs4.OK, st)
				assert.False(t, got.Done)
				close(fs.release)
				a := <-ended
				assert.Equal(t, nfs4.OK, a.Status)
				assert.EqualValues(t, offloadSize, a.Response.Count)
			})
		})
	}
}

// TestOffloadStateIDs checks that a copy continues if the stateids with which it began change:
// those for its files get other seqids.
func TestOffloadStateIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fs, _, src, dst, ended := newOffloadServer(t)
		opened, _ := g.openFile("dst", nfs4.ShareWrite, 0)
		fs.from.Store(20 << 20)
		require.True(t, g.copyWithStateIDs(src, dst, nfs4.CopyArgs{DstStateID: opened.StateID}).Response.HasCallback)
		synctest.Wait()
		again, _ := g.openFile("dst", nfs4.ShareBoth, 0)
		require.Equal(t, opened.StateID.SeqID+1, again.StateID.SeqID)
		close(fs.release)
		a := <-ended
		assert.Equal(t, nfs4.OK, a.Status)
		assert.EqualValues(t, offloadSize, a.Response.Count)
	})
}

// TestOffloadOfShorterSource checks that a copy whose source becomes shorter concurrently
// copies up to the new end.
func TestOffloadOfShorterSource(t *testing.T) {
	for name, size := range map[string]uint64{"in a later round": 35 << 20, "in this round": 30 << 20, "behind": 10 << 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, fs, _, src, dst, ended := newOffloadServer(t)
				fs.from.Store(20 << 20)
				g.copyWholeFile(src, dst, false)
				synctest.Wait()
				require.Equal(t, nfs4.OK, g.setAttrs(handleInStep(src), nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: size}))
				close(fs.release)
				a := <-ended
				assert.Equal(t, nfs4.OK, a.Status)
				assert.EqualValues(t, max(size, 20<<20), a.Response.Count)
			})
		})
	}
}

// A fakePanickingFS is a file system whose reads beyond an offset panic.
type fakePanickingFS struct{ *fakeHeldFS }

func (f fakePanickingFS) Read(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64) (int, bool, vfs.MaybeAttr, error) {
	if off >= 20<<20 {
		panic("a bug")
	}
	return f.fakeHeldFS.Read(ctx, c, h, p, off)
}

// TestOffloadPanics checks that a file system bug ends only the copy that has triggered it.
func TestOffloadPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, src, dst, ended := newOffloadServerFor(t, fakePanickingFS{newFakeHeldFS()})
		require.True(t, g.copyWholeFile(src, dst, false).Response.HasCallback)
		assert.Equal(t, nfs4.ErrServerFault, (<-ended).Status)
		synctest.Wait()
		assert.EqualValues(t, offloadSize, g.getAttrs(handleInStep(src), nfs4.BitmapOf(nfs4.AttrSize)).Size)
	})
}

// TestOffloadAndExports checks that a copy ends if its export is removed, is on other servers,
// or must not be changed, and that the client is notified.
func TestOffloadAndExports(t *testing.T) {
	at := newReferralExport(t, "/x", "refer=/there@one.example")
	for name, tt := range map[string]struct {
		set  func(fs vfs.FS) []exportset.Export
		want nfs4.Status
	}{
		"gone": {func(vfs.FS) []exportset.Export { return nil }, nfs4.ErrStale},
		"elsewhere": {func(fs vfs.FS) []exportset.Export {
			return []exportset.Export{{Path: "/x", FS: fs, Clients: at.Clients}}
		}, nfs4.ErrMoved},
		"read-only": {func(fs vfs.FS) []exportset.Export {
			return []exportset.Export{{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{ReadOnly: true, Insecure: true, NoRootSquash: true})}}
		}, nfs4.ErrROFS},
		"of others": {func(fs vfs.FS) []exportset.Export {
			e := newMemoryExport("/x", exports.Options{Insecure: true}, "198.51.100.0/24")
			e.FS = fs
			return []exportset.Export{e}
		}, nfs4.ErrAccess},
		"with Kerberos": {func(fs vfs.FS) []exportset.Export {
			return []exportset.Export{newExport(t, fs, "/x", "rw,no_root_squash,sec=krb5")}
		}, nfs4.ErrAccess},
		"squashed": {func(fs vfs.FS) []exportset.Export {
			return []exportset.Export{{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{Insecure: true})}}
		}, nfs4.ErrAccess},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, fs, _, src, dst, ended := newOffloadServer(t)
				opened, _ := g.openFile("dst", nfs4.ShareWrite, 0)
				fs.from.Store(20 << 20)
				id := g.copyWithStateIDs(src, dst, nfs4.CopyArgs{DstStateID: opened.StateID}).Response.Callback
				synctest.Wait()
				require.NoError(t, g.s.exports.SetExports(tt.set(fs)))
				close(fs.release)
				a := <-ended
				assert.Equal(t, id, a.StateID)
				assert.Equal(t, tt.want, a.Status)
				assert.EqualValues(t, 2*maxCopy, a.Copied, "the round in progress")
				synctest.Wait()
				assert.Empty(t, g.s.offloads.byID)
			})
		})
	}
}

// A fakeHookedFS calls functions before reading attributes and before writing.
type fakeHookedFS struct {
	*mem.FS
	beforeGetAttr func()
	beforeWrite   func(off uint64)
}

func (f *fakeHookedFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	if hook := f.beforeGetAttr; hook != nil {
		hook()
	}
	return f.FS.GetAttr(ctx, c, h)
}

func (f *fakeHookedFS) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	if f.beforeWrite != nil {
		f.beforeWrite(off)
	}
	return f.FS.Write(ctx, c, h, p, off, how)
}

// A fakeUnstableFS has not made writes from 20 MiB on stable.
type fakeUnstableFS struct{ *mem.FS }

func (f fakeUnstableFS) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	n, done, wcc, err := f.FS.Write(ctx, c, h, p, off, how)
	if off >= 20<<20 {
		done = vfs.Unstable
	}
	return n, done, wcc, err
}

// TestOffloadCommitted checks that a copy is as stable as its least stable part.
func TestOffloadCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, src, dst, ended := newOffloadServerFor(t, fakeUnstableFS{mem.New(mem.Options{Size: 1 << 30})})
		res := g.copyWholeFile(src, dst, false)
		assert.Equal(t, nfs4.FileSync, res.Response.Committed)
		assert.Equal(t, nfs4.Unstable, (<-ended).Response.Committed)
	})
}

// TestOffloadAndDelegations checks that each part of a copy recalls delegations of the target
// that others have got concurrently, and that the copy continues if the client has returned the
// delegation with which it reads the source (R7862-15.2-17).
func TestOffloadAndDelegations(t *testing.T) {
	for name, test := range map[string]func(t *testing.T){
		"of the target": func(t *testing.T) {
			fs := &fakeHookedFS{FS: mem.New(mem.Options{Size: 1 << 30})}
			g, _, src, dst, ended := newOffloadServerFor(t, fs)
			o, back := g.newClientAt("other", "192.0.2.2:700")
			d, returned := make(chan nfs4.StateID, 1), make(chan bool, 1)
			back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
				time.Sleep(time.Second)
				returned <- true // the copy may continue before give knows
				assert.Equal(t, nfs4.OK, o.returnDelegation(dst, <-d))
			}
			fs.beforeWrite = func(off uint64) {
				if off < 20<<20 {
					return
				}
				fs.beforeWrite = nil
				fs.beforeGetAttr = func() { // for the next part
					fs.beforeGetAttr = nil
					opened, _ := o.openFile("dst", nfs4.ShareRead, 0)
					assert.Equal(t, nfs4.DelegateRead, opened.Delegation.Type)
					d <- opened.Delegation.StateID
				}
			}
			g.copyWholeFile(src, dst, false)
			assert.Equal(t, nfs4.OK, (<-ended).Status)
			assert.Len(t, returned, 1)
		},
		"of the source": func(t *testing.T) {
			fs := &fakeHookedFS{FS: mem.New(mem.Options{Size: 1 << 30})}
			g, _, src, dst, ended := newOffloadServerFor(t, fs)
			opened, _ := g.openFile("src", nfs4.ShareRead, 0)
			require.Equal(t, nfs4.DelegateRead, opened.Delegation.Type)
			answered := make(chan struct{})
			fs.beforeWrite = func(off uint64) {
				if off < 20<<20 {
					return
				}
				fs.beforeWrite = nil
				<-answered // the client has one slot
				assert.Equal(t, nfs4.OK, g.returnDelegation(src, opened.Delegation.StateID))
			}
			g.copyWithStateIDs(src, dst, nfs4.CopyArgs{SrcStateID: opened.Delegation.StateID})
			close(answered)
			a := <-ended
			assert.Equal(t, nfs4.OK, a.Status)
			assert.EqualValues(t, offloadSize, a.Response.Count)
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}
