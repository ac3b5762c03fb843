package exportset

import (
	"context"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// withClients exports /x to the clients in an exports(5) line.
func withClients(t testing.TB, clients string) func(*Config) {
	f, err := exports.Parse("exports", []byte("/x "+clients))
	require.NoError(t, err)
	return func(c *Config) { c.Exports[0].Clients = f.Exports[0].Clients }
}

// TestGateCost checks that checking a call with any flavor allocates nothing, and that the
// Options belong to the snapshot, so that connections share them.
func TestGateCost(t *testing.T) {
	s := newTestSet(t, new(fakeRootFS), withClients(t, "*(sec=sys:krb5p,insecure)"))
	e := s.Snapshot().List()[0]
	root := e.FS.Root()
	fh := s.AppendHandle(nil, e, &root)
	peer, reply, ctx := peerAt(1), new(oncrpc.Reply), context.Background()
	var q Request
	for _, f := range []uint32{rpcmsg.AuthSys, rpcmsg.AuthKrb5p, rpcmsg.AuthNone} {
		c := &rpcmsg.Cred{Flavor: f, UID: 1000, GID: 100, GIDs: make([]uint32, 10*maxGroups)}
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			q.Begin(s, peer, c, reply)
			_, err := q.Open(ctx, fh)
			if err != nil || q.Options != &e.Clients[0].Options {
				t.Error(err)
			}
			q.End()
		}), f)
	}
}

// TestGates checks a peer's access by flavor.
func TestGates(t *testing.T) {
	near := peerAt(2)
	for _, tt := range []struct {
		clients string
		peer    *oncrpc.Peer
		flavor  uint32
		want    error
	}{
		{"*", near, rpcmsg.AuthSys, nil},
		{"*", near, rpcmsg.AuthNone, nil},
		{"*", near, rpcmsg.AuthKrb5, WrongSec},
		{"*", near, rpcmsg.AuthGSS, WrongSec},
		{"*(sec=none)", near, rpcmsg.AuthSys, WrongSec},
		{"*(sec=krb5)", near, rpcmsg.AuthNone, WrongSec},
		{"*(sec=krb5:krb5p)", near, rpcmsg.AuthKrb5i, WrongSec},
		{"*(sec=sys:krb5)", near, rpcmsg.AuthKrb5, nil},
		{"*(sec=krb5)", nil, rpcmsg.AuthSys, WrongSec},
		{"192.0.3.0/24(sec=krb5)", near, rpcmsg.AuthKrb5, Access},
	} {
		s := newTestSet(t, new(fakeRootFS), withClients(t, tt.clients))
		_, err := s.resolveAccess(t.Context(), tt.peer, s.Snapshot().List()[0]).forFlavor(tt.flavor)
		assert.Equal(t, tt.want, err, "%s %d", tt.clients, tt.flavor)
	}
}

// TestUnknownUser checks that a call whose user is currently unknown is deferred, and not
// served as nobody, unless all users are nobody.
func TestUnknownUser(t *testing.T) {
	for clients, want := range map[string]error{"*(sec=krb5)": Later, "*(sec=krb5,all_squash,anonuid=5)": nil} {
		s := newTestSet(t, new(fakeRootFS), withClients(t, clients))
		root := s.Snapshot().List()[0].FS.Root()
		fh := s.AppendHandle(nil, s.Snapshot().List()[0], &root)
		var q Request
		q.Begin(s, peerAt(1), &rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5, UID: rpcmsg.Nobody, GID: rpcmsg.Nobody, Anonymous: true, Unknown: true}, new(oncrpc.Reply))
		_, err := q.Open(t.Context(), fh)
		assert.Equal(t, want, err, clients)
		if err == nil {
			assert.EqualValues(t, 5, q.Cred.UID)
		}
		q.End()
	}
}

// A fakeOutsideFS has only objects outside the export's directory.
type fakeOutsideFS struct{ fakeRootFS }

func (*fakeOutsideFS) Within(context.Context, *vfs.Cred, vfs.Handle) error { return syscall.ESTALE }

// TestInsecureLocksWithin checks that insecure_locks reaches no object that
// subtree_check keeps clients from.
func TestInsecureLocksWithin(t *testing.T) {
	for option, want := range map[string]error{"subtree_check": syscall.ESTALE, "no_subtree_check": nil} {
		s := newTestSet(t, new(fakeOutsideFS), withClients(t, "*(sec=krb5,insecure_locks,"+option+")"))
		root := s.Snapshot().List()[0].FS.Root()
		fh := s.AppendHandle(nil, s.Snapshot().List()[0], &root)
		var q Request
		q.Begin(s, nil, &rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1000}, new(oncrpc.Reply))
		_, free, err := q.OpenToLock(t.Context(), fh)
		assert.Equal(t, want, err, option)
		assert.Equal(t, want == nil, free)
		q.End()
	}
}
