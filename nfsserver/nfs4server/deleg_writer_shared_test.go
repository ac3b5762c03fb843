package nfs4server

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// A sharedServer grants write delegations for files that host processes use too.
type sharedServer struct {
	*testServer
	back     *fakeBackchannel
	dir      string
	returned chan struct{} // closed when a delegation of held is returned
}

func newSharedServer(t *testing.T) *sharedServer {
	fs, dir := newACLDir(t)
	g, back := newDelegServerFor(t, fs, false)
	g.s.writeDelegations = true
	return &sharedServer{g, back, dir, make(chan struct{})}
}

// onRecall sets what the client does at a recall. The recall may come by the kernel, and not
// by any goroutine.
func (g *sharedServer) onRecall(do func()) {
	g.back.mu.Lock()
	defer g.back.mu.Unlock()
	g.back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) { do() }
}

func (g *sharedServer) hostPath(name string) string { return filepath.Join(g.dir, name) }

// makeHeldFile makes a file with a write delegation, for which the client writes back data when
// it is recalled.
func (g *sharedServer) makeHeldFile(t *testing.T, name, data string) (nfs4.OpenRes, step) {
	t.Helper()
	g.makeFileStep(name)
	opened, put := g.openForWriting(name)
	own := g.anotherSession("client")
	g.onRecall(func() {
		assert.Equal(t, nfs4.OK, own.writeAtStart(put, opened.Delegation.StateID, data))
		assert.Equal(t, nfs4.OK, own.returnDelegation(put, opened.Delegation.StateID))
		close(g.returned)
	})
	return opened, put
}

// TestSharedWriter checks that a host process that reads a file, or writes to it, waits until
// the client has written back, and sees what the client has written; and that the client's own
// use of the file does not recall its delegation.
func TestSharedWriter(t *testing.T) {
	for name, use := range map[string]func(path string) ([]byte, error){
		"read": os.ReadFile,
		"write": func(path string) ([]byte, error) {
			f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			_, err = f.WriteString("!")
			data := make([]byte, 10)
			n, _ := f.ReadAt(data, 0)
			return data[:n-1], err
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newSharedServer(t)
			opened, put := g.makeHeldFile(t, "f", "written")
			id := opened.Delegation.StateID
			require.Equal(t, nfs4.OK, g.writeAtStart(put, id, "first"))
			require.Equal(t, nfs4.OK, g.writeAtStart(put, opened.StateID, "second"))
			var read nfs4.ReadRes
			st, _ := g.sendSteps(put, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: id, Count: 100}, &read})
			require.Equal(t, nfs4.OK, st)
			assert.Equal(t, "second", string(read.Data))
			lock := nfs4.LockArgs{Type: nfs4.LockWrite, Length: 5, New: true, StateID: opened.StateID, Owner: nfs4.StateOwner{Owner: []byte("l")}}
			st, _ = g.sendSteps(put, step{nfs4.OpLock, &lock, new(nfs4.LockRes)})
			require.Equal(t, nfs4.OK, st)
			assert.Zero(t, g.back.callCount(), "the client's own uses recall its delegation")

			data, err := use(g.hostPath("f"))
			require.NoError(t, err)
			assert.Equal(t, "written", string(data))
			<-g.returned
			assert.Equal(t, 1, g.back.callCount())
			assert.Zero(t, g.s.exports.Holders().Len())
		})
	}
}

// TestSharedWriterOthers checks that another client's open, which the daemon performs, comes
// after the recall, and sees what the holder has written.
func TestSharedWriterOthers(t *testing.T) {
	g := newSharedServer(t)
	_, put := g.makeHeldFile(t, "f", "written")
	o, _ := g.newClientAt("other", "192.0.2.2:700")
	opened, _ := o.openFile("f", nfs4.ShareRead, 0)
	var read nfs4.ReadRes
	st, _ := o.sendSteps(put, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: opened.StateID, Count: 100}, &read})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, "written", string(read.Data))
	assert.Equal(t, 1, g.back.callCount())
}

// readAll reads a file. The reply may contain mapped pages.
func (g *testServer) readAll(put step, id nfs4.StateID) string {
	g.t.Helper()
	var res nfs4.ReadRes
	st, _ := g.sendSteps(put.withNewResults(), step{nfs4.OpRead, &nfs4.ReadArgs{StateID: id, Count: 512 << 10}, &res})
	require.Equal(g.t, nfs4.OK, st)
	assert.True(g.t, res.EOF)
	return string(res.Data)
}

// TestSharedWriterCut checks that a host process that truncates a file waits for the holder of
// a write delegation, who still reads the whole file, and that later reads end at the new end,
// although the file was read from its mapping before.
func TestSharedWriterCut(t *testing.T) {
	g := newSharedServer(t)
	put := g.makeFileStep("f")
	whole := strings.Repeat("0123456789abcdef", 16<<10)
	require.NoError(t, os.WriteFile(g.hostPath("f"), []byte(whole), 0o644))
	o, _ := g.newClientAt("other", "192.0.2.2:700")
	o.mappable, g.mappable = true, true
	reader, _ := o.openFile("f", nfs4.ShareRead|nfs4.WantNoDeleg, 0)
	assert.True(t, whole == o.readAll(put, reader.StateID))
	require.Equal(t, 1, o.lent, "by the mapping")
	require.Equal(t, nfs4.OK, o.closeFile(put.args.(*nfs4.HandleArgs).Object, reader.StateID))

	opened, _ := g.openForWriting("f")
	own := g.anotherSession("client")
	assert.True(t, whole == g.readAll(put, opened.Delegation.StateID))
	g.onRecall(func() {
		assert.True(t, whole == own.readAll(put, opened.StateID), "the process waits")
		assert.Equal(t, nfs4.OK, own.writeAtStart(put, opened.Delegation.StateID, "written"))
		assert.Equal(t, nfs4.OK, own.returnDelegation(put, opened.Delegation.StateID))
		close(g.returned)
	})
	const short = 200_001
	require.NoError(t, os.Truncate(g.hostPath("f"), short))
	<-g.returned
	want := "written" + whole[7:short]
	assert.True(t, want == g.readAll(put, opened.StateID))
	reader, _ = o.openFile("f", nfs4.ShareRead|nfs4.WantNoDeleg, 0)
	assert.True(t, want == o.readAll(put, reader.StateID))
	assert.Equal(t, 2, o.lent, "by the mapping again")
	assert.Equal(t, 1, g.back.callCount())
}

// TestSharedWriterNames checks that a host process's change to the file's name recalls the
// delegation, after the fact.
func TestSharedWriterNames(t *testing.T) {
	g := newSharedServer(t)
	g.makeHeldFile(t, "f", "written")
	require.NoError(t, os.Rename(g.hostPath("f"), g.hostPath("new")))
	<-g.returned
	data, err := os.ReadFile(g.hostPath("new"))
	require.NoError(t, err)
	assert.Equal(t, "written", string(data))
}

// TestSharedWriterNone checks that a file that a host process has open, even to read, gets no
// write delegation, and is not otherwise affected.
func TestSharedWriterNone(t *testing.T) {
	g := newSharedServer(t)
	put := g.makeFileStep("f")
	local, err := os.Open(g.hostPath("f"))
	require.NoError(t, err)
	opened, _ := g.openFile("f", nfs4.ShareBoth|nfs4.WantWriteDeleg, 0)
	assert.Equal(t, nfs4.OpenDelegation{Type: nfs4.DelegateNoneExt, Why: nfs4.WhyContention}, opened.Delegation)
	require.Equal(t, nfs4.OK, g.writeAtStart(put, opened.StateID, "written"))
	require.NoError(t, local.Close())
	data, err := os.ReadFile(g.hostPath("f"))
	require.NoError(t, err)
	assert.Equal(t, "written", string(data))
	assert.Zero(t, g.s.exports.Holders().Len())

	g.s.writeDelegations = false
	g.makeFileStep("off")
	opened, _ = g.openFile("off", nfs4.ShareBoth|nfs4.WantWriteDeleg, 0)
	assert.Equal(t, nfs4.WhyResource, opened.Delegation.Why)
}

// TestSharedWriterAsked checks that a host process breaks the lease while the client is queried
// for the file's size: both the process and the requesting client see what the holder writes
// back.
func TestSharedWriterAsked(t *testing.T) {
	g := newSharedServer(t)
	opened, put := g.makeHeldFile(t, "f", "written")
	require.Equal(t, nfs4.OK, g.writeAtStart(put, opened.Delegation.StateID, "first"))
	read := make(chan string)
	g.back.getattr = func(context.Context, nfs4.CBGetAttrArgs) (res nfs4.GetAttrRes, _ error) {
		go func() {
			data, err := os.ReadFile(g.hostPath("f"))
			assert.NoError(t, err)
			read <- string(data)
		}()
		<-g.returned
		res.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrChange), Size: 100, Change: 1}
		return res, nil
	}
	o, _ := g.newClientAt("other", "192.0.2.2:700")
	attrs, st := o.statStep(put)
	require.Equal(t, nfs4.OK, st)
	assert.EqualValues(t, len("written"), attrs.Size, "the answer came too late")
	assert.Equal(t, "written", <-read)
	assert.Equal(t, 1, g.back.callCount())
	assert.Zero(t, g.s.exports.Holders().Len())
}

// TestSharedWriterTwice checks that a file in two exports of one directory is one file:
// others who use it by the second export see what the holder has written back, and the
// holder itself, who breaks its own lease there, is deferred until it has returned the
// delegation.
func TestSharedWriterTwice(t *testing.T) {
	for _, name := range []string{"holder", "other"} {
		t.Run(name, func(t *testing.T) {
			g := newSharedServer(t)
			second, err := posix.Open(g.dir, posix.Options{})
			require.NoError(t, err)
			defer second.Close()
			list := g.s.exports.Exports()
			require.NoError(t, g.s.exports.SetExports(append(list, exportset.Export{Path: "/y", FS: second, Clients: list[0].Clients})))
			g.makeHeldFile(t, "f", "written")
			user := g.testServer
			if name == "other" {
				user, _ = g.newClientAt("other", "192.0.2.2:700")
			}
			a := nfs4.OpenArgs{ShareAccess: nfs4.ShareRead | nfs4.WantNoDeleg, Owner: nfs4.StateOwner{Owner: []byte("w")}, How: nfs4.NoCreate, Claim: nfs4.ClaimNull, Name: []byte("f")}
			read := nfs4.ReadRes{}
			use := func() nfs4.Status {
				st, _ := user.sendSteps(putRootStep(), lookupStep("y"), step{nfs4.OpOpen, &a, new(nfs4.OpenRes)}, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: nfs4.CurrentStateID, Count: 100}, &read})
				return st
			}
			if name == "holder" {
				require.Equal(t, nfs4.ErrDelay, use())
				<-g.returned
			}
			require.Equal(t, nfs4.OK, use())
			assert.Equal(t, "written", string(read.Data))
			assert.Equal(t, 1, g.back.callCount())
		})
	}
}

// TestSharedWriterReload checks that a write delegation in an exclusive export is recalled when
// the export is not exclusive any more, because it has no lease, and that later ones have
// leases.
func TestSharedWriterReload(t *testing.T) {
	fs, dir := newACLDir(t)
	r, back := newDelegServerFor(t, fs, true)
	r.s.writeDelegations = true
	g := &sharedServer{r, back, dir, make(chan struct{})}
	g.makeHeldFile(t, "f", "written")
	list := g.s.exports.Exports()
	list[0].Clients = exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true})
	require.NoError(t, g.s.exports.SetExports(list))
	<-g.returned
	assert.Equal(t, 1, g.back.callCount())
	data, err := os.ReadFile(g.hostPath("f"))
	require.NoError(t, err)
	assert.Equal(t, "written", string(data))

	g.returned = make(chan struct{})
	g.makeHeldFile(t, "g", "with a lease")
	data, err = os.ReadFile(g.hostPath("g"))
	require.NoError(t, err)
	assert.Equal(t, "with a lease", string(data))
	assert.Equal(t, 2, g.back.callCount())
}
