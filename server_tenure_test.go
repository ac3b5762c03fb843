package nfsrdma

import (
	"context"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// newTenure returns a tenure that does not end within the test.
func newTenure() *tenure.Tenure {
	word := tenure.Now() + int64(time.Hour)
	return tenure.New(&word)
}

// A changeCounter counts the directories that calls create, after which a tenure may end.
type changeCounter struct {
	vfs.FS
	created atomic.Int64
	after   func()
}

func (c *changeCounter) Mkdir(ctx context.Context, cred *vfs.Cred, dir vfs.Handle, name string, set vfs.SetAttr) (vfs.Made, error) {
	c.created.Add(1)
	made, err := c.FS.Mkdir(ctx, cred, dir, name, set)
	c.after()
	return made, err
}

// TestTenureEnds checks that a call that arrives after the end of a tenure is not executed, that one
// during which the tenure ends gets no reply, and that both reset the connection.
func TestTenureEnds(t *testing.T) {
	for _, transport := range []string{"tcp", "rdma"} {
		for name, during := range map[string]bool{"before the call": false, "during the call": true} {
			t.Run(transport+" "+name, func(t *testing.T) {
				held := newTenure()
				fs := &changeCounter{FS: mem.New(mem.Options{}), after: held.End}
				r := startServer(t, ServerConfig{Exports: []nfsserver.Export{{Path: "/a", FS: fs}}, Tenure: held})
				ends := &endWatcher{err: make(chan error, 1)}
				line := ends.dial(t, transport, r)
				root, err := nfsclient.NewMount(line, nil).Mnt(t.Context(), "/a")
				require.NoError(t, err)
				if !during {
					held.End()
				}
				args := nfs3.MkdirArgs{Where: nfs3.DirOpArgs{Dir: root, Name: []byte("d")}}
				x := oncrpc.Exchange{Prog: nfs3.Program, Vers: nfs3.Version, Proc: nfs3.ProcMkdir, Args: args.AppendTo(nil), MaxResults: 500}
				require.Error(t, line.Call(t.Context(), &x))
				assert.ErrorIs(t, <-ends.err, syscall.ECONNRESET)
				assert.Equal(t, during, fs.created.Load() == 1)
			})
		}
	}
}

// TestTenureGate checks the gate alone: it asks before each reply.
func TestTenureGate(t *testing.T) {
	held, cut := newTenure(), 0
	served := 0
	next := serviceFunc(func(rep *oncrpc.Reply) bool {
		served++
		rep.Head = append(rep.Head, "reply"...)
		rep.NewItem(100)
		return true
	})
	gate := withTenure(next, held)
	peer := &oncrpc.Peer{Cut: func(cause error) { cut++; assert.ErrorIs(t, cause, tenure.ErrOver) }}
	rep := new(oncrpc.Reply)
	assert.True(t, gate.Serve(t.Context(), &oncrpc.Request{Peer: peer}, rep))
	assert.Equal(t, "reply", string(rep.Head))
	rep.Discard()
	held.End()
	assert.False(t, gate.Serve(t.Context(), &oncrpc.Request{Peer: peer}, rep))
	assert.Empty(t, rep.Head)
	assert.Nil(t, rep.Item)
	assert.Equal(t, 2, served)
	assert.Equal(t, 1, cut)

	held = newTenure()
	gate = withTenure(serviceFunc(func(rep *oncrpc.Reply) bool { defer held.End(); return next(rep) }), held)
	assert.False(t, gate.Serve(t.Context(), &oncrpc.Request{Peer: peer}, rep))
	assert.Empty(t, rep.Head)
	assert.Nil(t, rep.Item)
	assert.Equal(t, 3, served)
	assert.Equal(t, 2, cut)

	_, gated := withTenure(next, nil).(*tenureGate)
	assert.False(t, gated, "no gate without a tenure")
}

// A serviceFunc is a Service that returns replies.
type serviceFunc func(*oncrpc.Reply) bool

func (s serviceFunc) Serve(_ context.Context, _ *oncrpc.Request, rep *oncrpc.Reply) bool {
	return s(rep)
}

// An endWatcher is a connection that reports how its reading ended.
type endWatcher struct {
	net.Conn
	err chan error
}

func (w *endWatcher) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err != nil {
		select {
		case w.err <- err:
		default:
		}
	}
	return n, err
}

// dial returns a client's connection to r, which w watches.
func (w *endWatcher) dial(t *testing.T, transport string, r testServer) oncrpc.Caller {
	watch := func(_ context.Context, nc net.Conn) (net.Conn, error) {
		w.Conn = nc
		return w, nil
	}
	if transport == "tcp" {
		nc, err := net.Dial("tcp", r.tcp)
		require.NoError(t, err)
		watched, _ := watch(t.Context(), nc)
		c := oncrpc.NewTCPClient(watched, oncrpc.ClientConfig{})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	c, err := rpcrdma.DialConn(t.Context(), iwarp.Open(iwarp.Config{Secure: watch}), r.rdma, rpcrdma.ClientConnConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestTenureOfClients checks that the list of clients is not written after the end of a tenure.
func TestTenureOfClients(t *testing.T) {
	held := newTenure()
	s, err := NewServer(ServerConfig{Clients: t.TempDir() + "/clients", Tenure: held})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.clients.Replace(func() [][]byte { return nil }))
	before := s.clients.Size()
	held.End()
	assert.ErrorIs(t, s.clients.Append([]byte("late")), tenure.ErrOver)
	assert.ErrorIs(t, s.clients.Replace(func() [][]byte { return nil }), tenure.ErrOver)
	assert.Equal(t, before, s.clients.Size())
}

// TestTenureOfMarker checks that the file in which development versions kept a lease stays when the
// tenure is over.
func TestTenureOfMarker(t *testing.T) {
	dir := t.TempDir()
	l, _, err := openClientList(dir+"/clients", newTenure(), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer l.Close()
	marker := dir + "/grants"
	require.NoError(t, os.WriteFile(marker, []byte("1m"), 0o600))
	l.tenure = newTenure()
	l.tenure.End()
	assert.Equal(t, time.Minute, l.adoptMarker(0))
	assert.FileExists(t, marker)
	l.tenure = nil
	assert.Equal(t, time.Minute, l.adoptMarker(0))
	assert.NoFileExists(t, marker)
}
