package exportset

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// protections are those of connections, by their xprtsec= words.
var protections = map[string]*oncrpc.Security{"none": nil, "tls": {}, "mtls": {Mutual: true}}

// TestTransports checks a peer's access by transport and flavor, over TCP and RDMA alike:
// nothing makes up for a weak transport, whatever the flavor is (R9289-4.2-3, R9289-5.1.3-1,
// R9289-6.3-1, R9289-6.4-1).
func TestTransports(t *testing.T) {
	for _, tt := range []struct {
		options string
		flavor  uint32
		want    map[string]error // nil: access
	}{
		{"rw", rpcmsg.AuthSys, nil},
		{"xprtsec=none", rpcmsg.AuthSys, nil},
		{"xprtsec=none:mtls", rpcmsg.AuthSys, nil},
		{"xprtsec=tls", rpcmsg.AuthSys, map[string]error{"none": WrongTransport}},
		{"xprtsec=tls", rpcmsg.AuthNone, map[string]error{"none": WrongTransport}},
		{"xprtsec=mtls", rpcmsg.AuthSys, map[string]error{"none": WrongTransport, "tls": WrongTransport}},
		{"xprtsec=tls:mtls,sec=krb5p", rpcmsg.AuthKrb5p, map[string]error{"none": WrongTransport}},
		{"xprtsec=tls:mtls,sec=krb5p", rpcmsg.AuthSys, map[string]error{"none": WrongTransport, "tls": WrongSec, "mtls": WrongSec}},
		{"xprtsec=tls,insecure_locks,sec=krb5", rpcmsg.AuthSys, map[string]error{"none": WrongTransport, "tls": WrongSec, "mtls": WrongSec}},
	} {
		s := newTestSet(t, new(fakeRootFS), withClients(t, "*("+tt.options+",insecure)"))
		root := s.Snapshot().List()[0].FS.Root()
		fh := s.AppendHandle(nil, s.Snapshot().List()[0], &root)
		for mode, security := range protections {
			for _, network := range []string{"tcp", "rdma"} {
				peer := peerAt(1)
				peer.Network, peer.Security = network, security
				cred := &rpcmsg.Cred{Flavor: tt.flavor, UID: 1000}
				want := tt.want[mode]
				what := []any{"%s: %s by %s, flavour %d", tt.options, network, mode, tt.flavor}
				var q Request
				q.Begin(s, peer, cred, new(oncrpc.Reply))
				_, err := q.Open(t.Context(), fh)
				assert.Equal(t, want, err, what...)
				q.End()
				if want != WrongTransport {
					continue
				}
				q.Begin(s, peer, cred, new(oncrpc.Reply))
				_, err = q.OpenToMount(t.Context(), fh)
				assert.Equal(t, want, err, what...)
				q.End()
				q.Begin(s, peer, cred, new(oncrpc.Reply))
				_, free, err := q.OpenToLock(t.Context(), fh)
				assert.Equal(t, want, err, what...)
				assert.False(t, free)
				assert.Equal(t, want, q.CheckUnlock(t.Context(), fh), what...)
				q.End()

				// Linux sends MOUNT unencrypted, and it requests only a handle.
				r, err := s.FindExport(t.Context(), peer, cred, "/x")
				require.NoError(t, err)
				r.Leave()
				assert.NoError(t, s.CheckAccess(t.Context(), peer, cred, s.Snapshot(), r.Exported))
			}
		}
		_, err := s.resolveAccess(t.Context(), nil, s.Snapshot().List()[0]).forFlavor(tt.flavor)
		assert.Equal(t, tt.want["mtls"], err, "a caller within this process")
	}
	assert.True(t, IsSecurityDenial(WrongSec) && IsSecurityDenial(WrongTransport) && !IsSecurityDenial(Perm) && !IsSecurityDenial(nil))
	assert.Equal(t, exports.TransportNone, peerTransport(new(oncrpc.Peer)))
}
