package nfs4server

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A sharedRig grants delegations for writing of files that processes of the host use
// too.
type sharedRig struct {
	*rig
	back     *backchannel
	dir      string
	returned chan struct{} // closed when a delegation of held is returned
}

func newSharedRig(t *testing.T) *sharedRig {
	fs, dir := shm(t)
	g, back := delegRigOf(t, fs, false)
	g.s.writes = true
	return &sharedRig{g, back, dir, make(chan struct{})}
}

func (g *sharedRig) path(name string) string { return filepath.Join(g.dir, name) }

// held makes a file with a delegation for writing, of which the client writes back
// data when it is recalled.
func (g *sharedRig) held(t *testing.T, name, data string) (nfs4.OpenRes, step) {
	t.Helper()
	g.file(name)
	opened, put := g.writing(name)
	own := g.anotherSession("client")
	g.back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
		assert.Equal(t, nfs4.OK, own.put(put, opened.Delegation.StateID, data))
		assert.Equal(t, nfs4.OK, own.give(put, opened.Delegation.StateID))
		close(g.returned)
	}
	return opened, put
}

// TestSharedWriter checks that a process of the host that reads a file, or writes to
// it, waits until the client has written back, and sees what the client has written;
// and that no use of the file by the client recalls its delegation.
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
			g := newSharedRig(t)
			opened, put := g.held(t, "f", "written")
			id := opened.Delegation.StateID
			require.Equal(t, nfs4.OK, g.put(put, id, "first"))
			require.Equal(t, nfs4.OK, g.put(put, opened.StateID, "second"))
			var read nfs4.ReadRes
			st, _ := g.do(put, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: id, Count: 100}, &read})
			require.Equal(t, nfs4.OK, st)
			assert.Equal(t, "second", string(read.Data))
			lock := nfs4.LockArgs{Type: nfs4.LockWrite, Length: 5, New: true, StateID: opened.StateID, Owner: nfs4.StateOwner{Owner: []byte("l")}}
			st, _ = g.do(put, step{nfs4.OpLock, &lock, new(nfs4.LockRes)})
			require.Equal(t, nfs4.OK, st)
			assert.Zero(t, g.back.count(), "the client's own uses recall its delegation")

			data, err := use(g.path("f"))
			require.NoError(t, err)
			assert.Equal(t, "written", string(data))
			<-g.returned
			assert.Equal(t, 1, g.back.count())
			assert.Zero(t, g.s.realm.Holders().Len())
		})
	}
}

// TestSharedWriterOthers checks that another client's open, which is one of the daemon,
// comes after the recall, and sees what the holder has written.
func TestSharedWriterOthers(t *testing.T) {
	g := newSharedRig(t)
	_, put := g.held(t, "f", "written")
	o, _ := g.clientAt("other", "192.0.2.2:700")
	opened, _ := o.openFile("f", nfs4.ShareRead, 0)
	var read nfs4.ReadRes
	st, _ := o.do(put, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: opened.StateID, Count: 100}, &read})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, "written", string(read.Data))
	assert.Equal(t, 1, g.back.count())
}

// TestSharedWriterNames checks that a change of the file's name by a process of the
// host recalls the delegation, after the fact.
func TestSharedWriterNames(t *testing.T) {
	g := newSharedRig(t)
	g.held(t, "f", "written")
	require.NoError(t, os.Rename(g.path("f"), g.path("new")))
	<-g.returned
	data, err := os.ReadFile(g.path("new"))
	require.NoError(t, err)
	assert.Equal(t, "written", string(data))
}

// TestSharedWriterNone checks that a file that a process of the host has open, even to
// read, gets no delegation for writing, and no other harm.
func TestSharedWriterNone(t *testing.T) {
	g := newSharedRig(t)
	put := g.file("f")
	local, err := os.Open(g.path("f"))
	require.NoError(t, err)
	opened, _ := g.openFile("f", nfs4.ShareBoth|nfs4.WantWriteDeleg, 0)
	assert.Equal(t, nfs4.OpenDelegation{Type: nfs4.DelegateNoneExt, Why: nfs4.WhyContention}, opened.Delegation)
	require.Equal(t, nfs4.OK, g.put(put, opened.StateID, "written"))
	require.NoError(t, local.Close())
	data, err := os.ReadFile(g.path("f"))
	require.NoError(t, err)
	assert.Equal(t, "written", string(data))
	assert.Zero(t, g.s.realm.Holders().Len())

	g.s.writes = false
	g.file("off")
	opened, _ = g.openFile("off", nfs4.ShareBoth|nfs4.WantWriteDeleg, 0)
	assert.Equal(t, nfs4.WhyResource, opened.Delegation.Why)
}
