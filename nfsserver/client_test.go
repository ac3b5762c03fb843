package nfsserver

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A fakeNames holds one host's names.
type fakeNames struct {
	names []string
	err   error
	slow  time.Duration
	asked int
}

func (b *fakeNames) NamesOf(ctx context.Context, _ netip.Addr) ([]string, error) {
	b.asked++
	select {
	case <-time.After(b.slow):
		return b.names, b.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (b *fakeNames) AddrsOf(context.Context, string) ([]netip.Addr, error) { return nil, nil }

// newNamedServer returns a testServer that serves *.example read-only and all others
// read-write.
func newNamedServer(t testing.TB, b *fakeNames) *testServer {
	f, err := exports.Parse("x", []byte("/x *.example(ro,insecure) *(rw,insecure)"))
	require.NoError(t, err)
	return newTestServer(t, newMemFS(), func(c *Config) {
		c.Names = b
		c.Exports[0].Clients = f.Exports[0].Clients
	})
}

func (g *testServer) callAccess() (nfs3.Status, uint32) {
	g.t.Helper()
	var res nfs3.AccessRes
	g.callNFS(nfs3.ProcAccess, &nfs3.AccessArgs{Object: g.handleOf(memRoot), Access: accessAll}, &res)
	return res.Status, res.Access
}

// TestNamedClient checks that a connection looks up names once in a while and
// then uses the new result; other connections and other exports do their own
// lookups.
func TestNamedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakeNames{names: []string{"a.example"}}
		g := newNamedServer(t, b)
		for range 10 {
			status, rights := g.callAccess()
			assert.Equal(t, nfs3.OK, status)
			assert.Zero(t, rights&accessToChange)
		}
		assert.Equal(t, 1, b.asked)
		b.names = nil
		time.Sleep(verdictTime + 1)
		_, rights := g.callAccess()
		assert.Equal(t, accessToChange, rights&accessToChange)
		assert.Equal(t, 2, b.asked)
		g.setPeerAddr("192.0.2.7")
		g.callAccess()
		assert.Equal(t, 3, b.asked)
		require.NoError(t, g.server.exports.SetExports(g.server.Exports()))
		g.callAccess()
		assert.Equal(t, 4, b.asked)
	})
}

// TestUnknownName checks that a client whose name is unknown is told to try
// again, and does not get another client's rights.
func TestUnknownName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakeNames{names: []string{"a.example"}, slow: time.Hour}
		g := newNamedServer(t, b)
		start := time.Now()
		status, _ := g.callAccess()
		assert.Equal(t, nfs3.ErrJukebox, status)
		assert.Equal(t, namesTime, time.Since(start))
		b.slow, b.err = 0, errors.New("server misbehaving")
		status, _ = g.callAccess()
		assert.Equal(t, nfs3.ErrJukebox, status)
		assert.Equal(t, mount3.ErrServerFault, g.callMnt("/x").Status)
		b.err = nil
		status, rights := g.callAccess()
		assert.Equal(t, nfs3.OK, status)
		assert.Zero(t, rights&accessToChange)
		assert.Equal(t, mount3.OK, g.callMnt("/x").Status)
	})
}

// TestNamedAllocs checks that names add no cost to a known client's calls.
func TestNamedAllocs(t *testing.T) {
	b := &fakeNames{names: []string{"a.example"}}
	g := newNamedServer(t, b)
	args := nfs3.HandleArgs{Object: g.handleOf(memRoot)}
	wire := args.AppendTo(nil)
	call := oncrpc.Call{Proc: nfs3.ProcGetAttr, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, Peer: g.peer}
	var rep oncrpc.Reply
	program, head := nfsProgram{g.server}, make([]byte, 0, 512)
	allocs := testing.AllocsPerRun(100, func() {
		call.Args = xdr.NewReader(wire)
		rep.Head = head
		require.NoError(t, program.ServeRPC(t.Context(), &call, &rep))
	})
	assert.Zero(t, allocs)
	assert.Equal(t, 1, b.asked)
}
