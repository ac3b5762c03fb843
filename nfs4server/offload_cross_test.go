package nfs4server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// copyBy is copyAll by stateids.
func (g *rig) copyBy(src, dst step, a nfs4.CopyArgs) nfs4.CopyRes {
	g.t.Helper()
	var res nfs4.CopyRes
	a.Consecutive = true
	st, _ := g.do(src, step{nfs4.OpSaveFH, &void, status()}, dst, step{nfs4.OpCopy, &a, &res})
	require.Equal(g.t, nfs4.OK, st)
	return res
}

// fhOf returns the filehandle of a PUTFH.
func fhOf(put step) nfs4.FH { return put.args.(*nfs4.HandleArgs).Object }

// TestOffloadAndSessions checks that a copy outlives the session that has asked for it,
// also the client's last one (R7862-4.8-2).
func TestOffloadAndSessions(t *testing.T) {
	for name, last := range map[string]bool{"another is left": false, "none is left": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, fs, _, src, dst, _ := offloadRig(t)
				fs.from.Store(20 << 20)
				id := g.copyAll(src, dst, false).Response.Callback
				synctest.Wait()
				o := *g
				o.noReclaims = true
				connect := func() *backchannel { return o.callable("client", "192.0.2.1:701") }
				var back *backchannel
				if !last {
					back = connect()
				}
				st, _ := g.raw(step{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: g.session}, status()})
				require.Equal(t, nfs4.OK, st)
				if last {
					back = connect()
				}
				ended := make(chan nfs4.CBOffloadArgs, 1)
				back.offload = func(a nfs4.CBOffloadArgs) { ended <- a }
				got, st := o.offloadStatus(dst, id)
				assert.Equal(t, nfs4.OK, st)
				assert.False(t, got.Done)
				close(fs.let)
				a := <-ended
				assert.Equal(t, nfs4.OK, a.Status)
				assert.EqualValues(t, offloadSize, a.Response.Count)
			})
		})
	}
}

// TestOffloadStateIDs checks that a copy goes on if the stateids move with which it began:
// those of its files get other seqids.
func TestOffloadStateIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fs, _, src, dst, ended := offloadRig(t)
		opened, _ := g.openFile("dst", nfs4.ShareWrite, 0)
		fs.from.Store(20 << 20)
		require.True(t, g.copyBy(src, dst, nfs4.CopyArgs{DstStateID: opened.StateID}).Response.HasCallback)
		synctest.Wait()
		again, _ := g.openFile("dst", nfs4.ShareBoth, 0)
		require.Equal(t, opened.StateID.SeqID+1, again.StateID.SeqID)
		close(fs.let)
		a := <-ended
		assert.Equal(t, nfs4.OK, a.Status)
		assert.EqualValues(t, offloadSize, a.Response.Count)
	})
}

// TestOffloadOfShorterSource checks that a copy whose source becomes shorter meanwhile
// copies up to the new end.
func TestOffloadOfShorterSource(t *testing.T) {
	for name, size := range map[string]uint64{"in a later round": 35 << 20, "in this round": 30 << 20, "behind": 10 << 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, fs, _, src, dst, ended := offloadRig(t)
				fs.from.Store(20 << 20)
				g.copyAll(src, dst, false)
				synctest.Wait()
				require.Equal(t, nfs4.OK, g.set(fhOf(src), nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: size}))
				close(fs.let)
				a := <-ended
				assert.Equal(t, nfs4.OK, a.Status)
				assert.EqualValues(t, max(size, 20<<20), a.Response.Count)
			})
		})
	}
}

// A badReader is a file system whose reads beyond an offset panic.
type badReader struct{ *heldFS }

func (f badReader) Read(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64) (int, bool, vfs.MaybeAttr, error) {
	if off >= 20<<20 {
		panic("a bug")
	}
	return f.heldFS.Read(ctx, c, h, p, off)
}

// TestOffloadPanics checks that a bug of a file system ends the copy alone that has met it.
func TestOffloadPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, src, dst, ended := offloadRigOf(t, badReader{newHeldFS()})
		require.True(t, g.copyAll(src, dst, false).Response.HasCallback)
		assert.Equal(t, nfs4.ErrServerFault, (<-ended).Status)
		synctest.Wait()
		assert.EqualValues(t, offloadSize, g.attrs(fhOf(src), nfs4.BitmapOf(nfs4.AttrSize)).Size)
	})
}

// TestOffloadAndExports checks that a copy ends if its export goes away, is on other
// servers, or must not be changed, and that the client hears of that.
func TestOffloadAndExports(t *testing.T) {
	at := elsewhere(t, "/x", "refer=/there@one.example")
	for name, tt := range map[string]struct {
		set  func(fs vfs.FS) []realm.Export
		want nfs4.Status
	}{
		"gone":      {func(vfs.FS) []realm.Export { return nil }, nfs4.ErrStale},
		"elsewhere": {func(fs vfs.FS) []realm.Export { return []realm.Export{{Path: "/x", FS: fs, Clients: at.Clients}} }, nfs4.ErrMoved},
		"read-only": {func(fs vfs.FS) []realm.Export {
			return []realm.Export{{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{ReadOnly: true, Insecure: true, NoRootSquash: true})}}
		}, nfs4.ErrROFS},
		"of others": {func(fs vfs.FS) []realm.Export {
			e := memory("/x", exports.Options{Insecure: true}, "198.51.100.0/24")
			e.FS = fs
			return []realm.Export{e}
		}, nfs4.ErrAccess},
		"with Kerberos": {func(fs vfs.FS) []realm.Export {
			return []realm.Export{exported(t, fs, "/x", "rw,no_root_squash,sec=krb5")}
		}, nfs4.ErrAccess},
		"squashed": {func(fs vfs.FS) []realm.Export {
			return []realm.Export{{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{Insecure: true})}}
		}, nfs4.ErrAccess},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, fs, _, src, dst, ended := offloadRig(t)
				opened, _ := g.openFile("dst", nfs4.ShareWrite, 0)
				fs.from.Store(20 << 20)
				id := g.copyBy(src, dst, nfs4.CopyArgs{DstStateID: opened.StateID}).Response.Callback
				synctest.Wait()
				require.NoError(t, g.s.realm.SetExports(tt.set(fs)))
				g.s.ExportsChanged()
				close(fs.let)
				a := <-ended
				assert.Equal(t, id, a.StateID)
				assert.Equal(t, tt.want, a.Status)
				assert.EqualValues(t, 2*maxCopy, a.Copied, "the round that was under way")
				synctest.Wait()
				assert.Empty(t, g.s.offloads.byID)
			})
		})
	}
}

// A hookedFS calls functions before reading attributes and before writing.
type hookedFS struct {
	*mem.FS
	beforeGetAttr func()
	beforeWrite   func(off uint64)
}

func (f *hookedFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	if hook := f.beforeGetAttr; hook != nil {
		hook()
	}
	return f.FS.GetAttr(ctx, c, h)
}

func (f *hookedFS) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	if f.beforeWrite != nil {
		f.beforeWrite(off)
	}
	return f.FS.Write(ctx, c, h, p, off, how)
}

// An unstableFS has not made writes from 20 MiB on stable.
type unstableFS struct{ *mem.FS }

func (f unstableFS) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	n, done, wcc, err := f.FS.Write(ctx, c, h, p, off, how)
	if off >= 20<<20 {
		done = vfs.Unstable
	}
	return n, done, wcc, err
}

// TestOffloadCommitted checks that a copy is as stable as its least stable part.
func TestOffloadCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, src, dst, ended := offloadRigOf(t, unstableFS{mem.New(mem.Options{Size: 1 << 30})})
		res := g.copyAll(src, dst, false)
		assert.Equal(t, nfs4.FileSync, res.Response.Committed)
		assert.Equal(t, nfs4.Unstable, (<-ended).Response.Committed)
	})
}

// TestOffloadAndDelegations checks that each part of a copy recalls the delegations that
// others have got of the target meanwhile, and that the copy goes on if the client has
// returned the delegation by which it reads the source (R7862-15.2-17).
func TestOffloadAndDelegations(t *testing.T) {
	for name, test := range map[string]func(t *testing.T){
		"of the target": func(t *testing.T) {
			fs := &hookedFS{FS: mem.New(mem.Options{Size: 1 << 30})}
			g, _, src, dst, ended := offloadRigOf(t, fs)
			o, back := g.clientAt("other", "192.0.2.2:700")
			d, returned := make(chan nfs4.StateID, 1), make(chan bool, 1)
			back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
				time.Sleep(time.Second)
				returned <- true // the copy may go on before give knows
				assert.Equal(t, nfs4.OK, o.give(dst, <-d))
			}
			fs.beforeWrite = func(off uint64) {
				if off < 20<<20 {
					return
				}
				fs.beforeWrite = nil
				fs.beforeGetAttr = func() { // of the next part
					fs.beforeGetAttr = nil
					opened, _ := o.openFile("dst", nfs4.ShareRead, 0)
					assert.Equal(t, nfs4.DelegateRead, opened.Delegation.Type)
					d <- opened.Delegation.StateID
				}
			}
			g.copyAll(src, dst, false)
			assert.Equal(t, nfs4.OK, (<-ended).Status)
			assert.Len(t, returned, 1)
		},
		"of the source": func(t *testing.T) {
			fs := &hookedFS{FS: mem.New(mem.Options{Size: 1 << 30})}
			g, _, src, dst, ended := offloadRigOf(t, fs)
			opened, _ := g.openFile("src", nfs4.ShareRead, 0)
			require.Equal(t, nfs4.DelegateRead, opened.Delegation.Type)
			answered := make(chan struct{})
			fs.beforeWrite = func(off uint64) {
				if off < 20<<20 {
					return
				}
				fs.beforeWrite = nil
				<-answered // the client has one slot
				assert.Equal(t, nfs4.OK, g.give(src, opened.Delegation.StateID))
			}
			g.copyBy(src, dst, nfs4.CopyArgs{SrcStateID: opened.Delegation.StateID})
			close(answered)
			a := <-ended
			assert.Equal(t, nfs4.OK, a.Status)
			assert.EqualValues(t, offloadSize, a.Response.Count)
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}
