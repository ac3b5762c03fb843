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

// A fakeHungFS has files whose Close waits for storage.
type fakeHungFS struct {
	*fakeCountingFS
	answer chan struct{}
	closed chan struct{}
}

type fakeHungFile struct {
	vfs.File
	fs *fakeHungFS
}

func (f *fakeHungFile) Close() {
	<-f.fs.answer
	f.File.Close()
	f.fs.closed <- struct{}{}
}

func (fs *fakeHungFS) CreateFile(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, how vfs.CreateHow, access vfs.OpenAccess) (vfs.Made, vfs.Opened, error) {
	m, o, err := fs.fakeCountingFS.CreateFile(ctx, c, dir, name, how, access)
	if o.Write != nil {
		o.Write = &fakeHungFile{o.Write, fs}
	}
	return m, o, err
}

// newHungServer returns a connected testServer that has a file in a fakeHungFS open.
func newHungServer(t *testing.T) (*testServer, *fakeHungFS) {
	fs := &fakeHungFS{newCountingFS(mem.New(mem.Options{Size: 1 << 30, Mode: 0o777})), make(chan struct{}), make(chan struct{}, 1)}
	g := newTestServer(t, exportset.Export{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true})}).connectClient()
	_, _, st := g.openName(openArgs("o", "f", nfs4.ShareWrite, 0, nfs4.Unchecked))
	require.Equal(t, nfs4.OK, st)
	return g, fs
}

// TestHungStorageOfEndedClient checks that a client that restarts does not wait for the storage
// of the files that it had open.
func TestHungStorageOfEndedClient(t *testing.T) {
	g, fs := newHungServer(t)
	again := make(chan struct{})
	go func() {
		defer close(again)
		id, st := g.exchangeID("client", 9, 0)
		assert.Equal(t, nfs4.OK, st)
		st, _ = g.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{ClientID: id.ClientID, Sequence: id.SequenceID, Fore: channel, Back: channel}, new(nfs4.CreateSessionRes)})
		assert.Equal(t, nfs4.OK, st)
	}()
	select {
	case <-again:
	case <-time.After(10 * time.Second):
		t.Error("the client waits for the storage")
	}
	close(fs.answer)
	<-fs.closed
	<-again
}

// TestHungStorageAtEnd checks that closing the server waits for storage only for a bounded
// time.
func TestHungStorageAtEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fs := newHungServer(t)
		time.AfterFunc(time.Hour, func() { close(fs.answer) })
		began := time.Now()
		g.s.Close()
		assert.Equal(t, 2*time.Second, time.Since(began))
		<-fs.closed
	})
}
