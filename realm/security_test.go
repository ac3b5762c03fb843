package realm

import (
	"context"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// secured exports /x to the clients of a line of exports(5).
func secured(t testing.TB, clients string) func(*Config) {
	f, err := exports.Parse("exports", []byte("/x "+clients))
	require.NoError(t, err)
	return func(c *Config) { c.Exports[0].Clients = f.Exports[0].Clients }
}

// TestGateCost checks that a call of any flavour passes the gate of its connection
// without an allocation, and that the Options are those of the set, so that
// connections share them.
func TestGateCost(t *testing.T) {
	s := newRealm(t, new(rootFS), secured(t, "*(sec=sys:krb5p,insecure)"))
	e := s.Set().List()[0]
	root := e.FS.Root()
	fh := s.AppendHandle(nil, e, &root)
	peer, reply, ctx := peerOf(1), new(oncrpc.Reply), context.Background()
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

// TestGates checks the access of a peer by flavour.
func TestGates(t *testing.T) {
	near := peerOf(2)
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
		s := newRealm(t, new(rootFS), secured(t, tt.clients))
		_, err := s.decide(t.Context(), tt.peer, s.Set().List()[0]).of(tt.flavor)
		assert.Equal(t, tt.want, err, "%s %d", tt.clients, tt.flavor)
	}
}

// TestUnknownUser checks that a call whose user cannot be found at present is put off,
// and not served as nobody, unless everybody is nobody.
func TestUnknownUser(t *testing.T) {
	for clients, want := range map[string]error{"*(sec=krb5)": Later, "*(sec=krb5,all_squash,anonuid=5)": nil} {
		s := newRealm(t, new(rootFS), secured(t, clients))
		root := s.Set().List()[0].FS.Root()
		fh := s.AppendHandle(nil, s.Set().List()[0], &root)
		var q Request
		q.Begin(s, peerOf(1), &rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5, UID: rpcmsg.Nobody, GID: rpcmsg.Nobody, Anonymous: true, Unknown: true}, new(oncrpc.Reply))
		_, err := q.Open(t.Context(), fh)
		assert.Equal(t, want, err, clients)
		if err == nil {
			assert.EqualValues(t, 5, q.Cred.UID)
		}
		q.End()
	}
}

// An outsideFS has only objects outside the export's directory.
type outsideFS struct{ rootFS }

func (*outsideFS) Within(context.Context, *vfs.Cred, vfs.Handle) error { return syscall.ESTALE }

// TestInsecureLocksWithin checks that insecure_locks reaches no object that
// subtree_check keeps clients from.
func TestInsecureLocksWithin(t *testing.T) {
	for option, want := range map[string]error{"subtree_check": syscall.ESTALE, "no_subtree_check": nil} {
		s := newRealm(t, new(outsideFS), secured(t, "*(sec=krb5,insecure_locks,"+option+")"))
		root := s.Set().List()[0].FS.Root()
		fh := s.AppendHandle(nil, s.Set().List()[0], &root)
		var q Request
		q.Begin(s, nil, &rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1000}, new(oncrpc.Reply))
		_, free, err := q.OpenToLock(t.Context(), fh)
		assert.Equal(t, want, err, option)
		assert.Equal(t, want == nil, free)
		q.End()
	}
}
