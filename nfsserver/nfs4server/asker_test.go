package nfs4server

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestAskerLeaves checks that a call that ends while a client is queried for a file's size
// takes nothing from that client: otherwise a caller that may look at a file, but not read it,
// could make the client return it.
func TestAskerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newWriteDelegServer(t)
		put := g.makeFileStep("f")
		opened, _ := g.openForWriting("f")
		h := fakeHolder{}
		back.getattr = func(ctx context.Context, a nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) {
			time.Sleep(300 * time.Millisecond)
			return h.answerGetAttr(ctx, a)
		}
		o, _ := g.newClientAt("other", "192.0.2.2:700")
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		o.seq++
		b := o.encodeCompound(step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: o.session, Sequence: o.seq}, nil}, put,
			step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrSize)}, nil})
		call := oncrpc.Call{Prog: nfs4.Program, Vers: nfs4.Version, Proc: nfs4.ProcCompound, Cred: o.cred, Peer: o.peer, Args: xdr.NewReader(b), MaxReply: 4096}
		require.NoError(t, g.s.ServeRPC(ctx, &call, new(oncrpc.Reply)))
		time.Sleep(10 * time.Second)
		assert.Zero(t, back.callCount())
		assert.EqualValues(t, 1, h.asked.Load())
		assert.Equal(t, nfs4.OK, g.writeAtStart(put, opened.Delegation.StateID, "mine"))

		// A client that does not reply at all gets no more time because of that.
		back.getattr = func(ctx context.Context, _ nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) {
			<-ctx.Done()
			return nfs4.GetAttrRes{}, context.Cause(ctx)
		}
		ctx, cancel = context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		o.seq++
		call.Args = xdr.NewReader(o.encodeCompound(step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: o.session, Sequence: o.seq}, nil}, put,
			step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrSize)}, nil}))
		require.NoError(t, g.s.ServeRPC(ctx, &call, new(oncrpc.Reply)))
		time.Sleep(queryTimeout)
		synctest.Wait()
		assert.Equal(t, 1, back.callCount())
		assert.Equal(t, nfs4.OK, g.returnDelegation(put, opened.Delegation.StateID))
	})
}

// TestAskerWithoutRights checks that a user who may not read a file gets its attributes
// also if the client with the delegation gives none: GETATTR needs no rights.
//
// R8881-10.4.3-1.
func TestAskerWithoutRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newWriteDelegServer(t)
		put := g.makeFileStep("f")
		chmod := nfs4.SetAttrArgs{}
		chmod.Attrs.Mask, chmod.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), 0o600
		st, _ := g.sendSteps(put, step{nfs4.OpSetAttr, &chmod, new(nfs4.SetAttrRes)})
		require.Equal(t, nfs4.OK, st)
		opened, _ := g.openForWriting("f")
		back.getattr = func(context.Context, nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) {
			return nfs4.GetAttrRes{Status: nfs4.ErrBadHandle}, nil
		}
		own := g.anotherSession("client")
		back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
			assert.Equal(t, nfs4.OK, own.returnDelegation(put, opened.Delegation.StateID))
		}
		o, _ := g.newClientAt("other", "192.0.2.2:700")
		o.cred.UID, o.cred.GID = 1001, 1001
		_, st = o.readFile(handleInStep(put), nfs4.AnonymousStateID)
		require.Equal(t, nfs4.ErrAccess, st)
		assert.Zero(t, back.callCount(), "it recalls nothing by a READ")
		attrs, st := o.statStep(put)
		assert.Equal(t, nfs4.OK, st)
		assert.EqualValues(t, 5, attrs.Size)
	})
}

// A fakeBusyFS is a file system in which something happens before an object's attributes are
// read, or set.
type fakeBusyFS struct {
	*mem.FS
	getting, setting func() // may be nil
}

func (f *fakeBusyFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	if do := f.getting; do != nil {
		f.getting = nil
		do()
	}
	return f.FS.GetAttr(ctx, c, h)
}

func (f *fakeBusyFS) SetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle, a vfs.SetAttr, ctime *vfs.Time) (vfs.WCC, error) {
	if do := f.setting; do != nil {
		f.setting = nil
		do()
	}
	return f.FS.SetAttr(ctx, c, h, a, ctime)
}

// TestReportOfFormerWriter checks that the size that a client has reported is not passed on
// once the client has returned the delegation without writing, and that the file system records
// no change if another client has got a delegation since.
//
// R8881-10.4.3-2.
func TestReportOfFormerWriter(t *testing.T) {
	for _, name := range []string{"before the change", "in the change", "for another", "for another in the change"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := &fakeBusyFS{FS: mem.New(mem.Options{Size: 1 << 20})}
				g, back := newDelegServerFor(t, fs, true)
				g.s.writeDelegations = true
				put := g.makeFileStep("f")
				opened, _ := g.openForWriting("f")
				reader, readerBack := g.newClientAt("reader", "192.0.2.3:700")
				own := g.anotherSession("client")
				var known nfs4.Attrs
				give := func() {
					require.Equal(t, nfs4.OK, own.closeFile(handleInStep(put), opened.StateID))
					require.Equal(t, nfs4.OK, own.returnDelegation(put, opened.Delegation.StateID))
					switch name {
					case "for another":
						reader.openDelegated("f")
						var st nfs4.Status
						known, st = reader.statStep(put)
						require.Equal(t, nfs4.OK, st)
					case "for another in the change":
						again, _ := reader.openFile("f", nfs4.ShareRead, 0)
						assert.Equal(t, nfs4.DelegateNone, again.Delegation.Type)
					}
				}
				before, st := own.statStep(put)
				require.Equal(t, nfs4.OK, st)
				h := fakeHolder{}
				h.size.Store(1000)
				back.getattr = func(ctx context.Context, a nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error) {
					if strings.HasSuffix(name, "in the change") {
						fs.setting = give
					} else {
						fs.getting = give
					}
					return h.answerGetAttr(ctx, a)
				}
				o, _ := g.newClientAt("other", "192.0.2.2:700")
				attrs, st := o.statStep(put)
				require.Equal(t, nfs4.OK, st)
				assert.EqualValues(t, 5, attrs.Size)
				again, st := o.statStep(put)
				require.Equal(t, nfs4.OK, st)
				assert.Equal(t, attrs, again)
				switch name {
				case "before the change":
					assert.Equal(t, before, again, "nothing has changed")
				case "for another":
					assert.Equal(t, known, again)
					assert.Zero(t, readerBack.callCount())
				}
			})
		})
	}
}
