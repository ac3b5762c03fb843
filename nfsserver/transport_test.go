package nfsserver

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestEachInClear checks that an export that requires encrypted connections denies every
// unencrypted call at the RPC level, over TCP and RDMA, without a file system call: not even
// FSINFO for the root passes (R9289-4.2-3, R9289-5.1.3-1). MOUNT passes, which Linux sends
// unencrypted. Over TLS everything is as without it.
func TestEachInClear(t *testing.T) {
	eachProc(t, withClients(t, "*(rw,xprtsec=mtls,insecure,no_root_squash,sec=sys:krb5)"), func(t *testing.T, g *testServer, fs *memFS, p procCase, fh nfs3.FH) {
		plain := g.peer
		for _, network := range []string{"tcp", "rdma"} {
			for _, security := range []*oncrpc.Security{nil, {Suite: "TLS_AES_128_GCM_SHA256"}} {
				g.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.1:700"), Network: network, Security: security}
				for _, f := range []exports.Flavor{exports.FlavorSys, exports.FlavorKrb5, exports.FlavorNone} {
					fs.cred = vfs.Cred{UID: 9}
					clock := fs.clock
					assert.Equal(t, rpcmsg.AuthTooWeak, g.callNFSWithCred(credWithFlavor(f, 1000), p.proc, p.args(fh), p.res))
					assert.EqualValues(t, 9, fs.cred.UID, "no call of the file system")
					assert.Equal(t, clock, fs.clock)
				}
				assert.Contains(t, g.log.String(), "takes=mtls")
				var mnt mount3.MntRes
				require.NoError(t, g.callWithCred(mountProgram{g.server}, credWithFlavor(exports.FlavorSys, 0), mount3.ProcMnt, &mount3.PathArgs{Path: []byte("/x")}, &mnt))
				assert.Equal(t, mount3.OK, mnt.Status)
			}
		}
		g.peer = &oncrpc.Peer{Addr: plain.Addr, Network: "rdma", Security: &oncrpc.Security{Mutual: true}}
		require.NoError(t, g.callNFSWithCred(credWithFlavor(exports.FlavorSys, 0), p.proc, p.args(fh), p.res))
		assert.Equal(t, nfs3.OK, resultStatus(p.res))
	})
}
