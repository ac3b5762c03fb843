package nfsrdma

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nsm"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// protections are the protections of connections, by their names in xprtsec=.
var protections = map[string]*oncrpc.Security{"none": nil, "tls": {}, "mtls": {Mutual: true}}

// TestOnlyEncrypted checks which calls a server with OnlyEncrypted accepts, by transport,
// protection and flavor: without TLS only krb5p and what clients need at the start.
// Version 4 is tested in nfs4server's test of the same name.
func TestOnlyEncrypted(t *testing.T) {
	r := startServer(t, ServerConfig{OnlyEncrypted: true, Exports: []nfsserver.Export{{Path: "/x", FS: mem.New(mem.Options{})}}})
	handler := r.Parts().TCP.Handler
	assert.True(t, oncrpc.Resumes(handler))
	type program struct{ prog, vers, procs uint32 }
	programs := []program{
		{nfs3.Program, nfs3.Version, nfs3.NumProc + 1},
		{mount3.Program, mount3.Version, 7},
		{nfsacl.Program, nfsacl.Version, 9},
		{nlm4.Program, nlm4.Version, 25},
		{nlm4.Program, nlm4.Version1, 20},
		{nsm.Program, nsm.Version, 7},
		{nfs4.Program, nfs4.Version, 3},
		{400000, 1, 2},
	}
	for _, p := range programs {
		for proc := range p.procs {
			for mode, security := range protections {
				for _, network := range []string{"tcp", "rdma", "udp"} {
					for _, flavor := range []uint32{rpcmsg.AuthNone, rpcmsg.AuthSys, rpcmsg.AuthKrb5, rpcmsg.AuthKrb5i, rpcmsg.AuthKrb5p} {
						taken := mode != "none" || flavor == rpcmsg.AuthKrb5p || proc == 0 ||
							p.prog == mount3.Program && proc == mount3.ProcMnt || p.prog == nfs4.Program && p.vers == nfs4.Version && flavor == rpcmsg.AuthKrb5i
						msg := callMessage(p.prog, p.vers, proc)
						req := oncrpc.Request{Msg: msg, MaxReply: 1 << 16, MaxWhole: 1 << 16, Peer: &oncrpc.Peer{
							Addr: netip.MustParseAddrPort("192.0.2.1:700"), Network: network, Security: security,
						}}
						if flavor >= rpcmsg.AuthKrb5 {
							req.Verified = &rpcmsg.Cred{Flavor: flavor, Principal: "a@R", UID: 1, GID: 1}
						} else {
							binary.BigEndian.PutUint32(msg[6*4:], flavor)
						}
						var rep oncrpc.Reply
						answered := handler.Serve(t.Context(), &req, &rep)
						denied := answered && bytes.Equal(rep.Head, rpcmsg.AppendAuthError(nil, 7, rpcmsg.AuthTooWeak))
						if taken && (p.prog == nfs4.Program || p.prog == nlm4.Program && flavor == rpcmsg.AuthNone) {
							continue // the program decides
						}
						assert.Equal(t, !taken, denied, "program %d version %d procedure %d, %s by %s, flavour %d", p.prog, p.vers, proc, network, mode, flavor)
						rep.DropItem()
					}
				}
			}
		}
	}

	for n := range headLen { // too short for a call: the usual reply
		for _, peer := range []*oncrpc.Peer{nil, {Network: "tcp"}} {
			var rep oncrpc.Reply
			handler.Serve(t.Context(), &oncrpc.Request{Msg: callMessage(nfs3.Program, 3, 1)[:n], Peer: peer, MaxReply: 1 << 10}, &rep)
			assert.NotEqual(t, rpcmsg.AppendAuthError(nil, 7, rpcmsg.AuthTooWeak), rep.Head)
		}
	}
}

// callMessage returns a call without a credential and without arguments, whose XID is 7.
func callMessage(prog, vers, proc uint32) (b []byte) {
	for _, v := range []uint32{7, rpcmsg.MsgCall, rpcmsg.Version, prog, vers, proc, rpcmsg.AuthNone, 0, rpcmsg.AuthNone, 0} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// TestDenialsAreNotKept checks that a denied call has no effect on its retry over TLS, and
// that Wrap's observer, which counts denials, gets it.
func TestDenialsAreNotKept(t *testing.T) {
	seen := 0
	r := startServer(t, ServerConfig{
		OnlyEncrypted: true, Exports: []nfsserver.Export{{Path: "/x", FS: mem.New(mem.Options{})}},
		Wrap: func(next oncrpc.Service) oncrpc.Service { return callCounter{next, &seen} },
	})
	handler := r.Parts().TCP.Handler
	msg := callMessage(nfs3.Program, nfs3.Version, nfs3.ProcMkdir)
	for i, security := range []*oncrpc.Security{nil, {}} {
		var rep oncrpc.Reply
		peer := &oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.1:700"), Network: "tcp", Security: security}
		require.True(t, handler.Serve(t.Context(), &oncrpc.Request{Msg: msg, Peer: peer, MaxReply: 1 << 10}, &rep))
		denied := bytes.Equal(rep.Head, rpcmsg.AppendAuthError(nil, 7, rpcmsg.AuthTooWeak))
		assert.Equal(t, security == nil, denied, fmt.Sprint(security))
		assert.Equal(t, i+1, seen)
	}
}

type callCounter struct {
	oncrpc.Service
	seen *int
}

func (c callCounter) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	*c.seen++
	return c.Service.Serve(ctx, req, rep)
}
