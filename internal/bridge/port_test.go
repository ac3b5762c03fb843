package bridge

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/stretchr/testify/assert"
)

// fakeCountingCaller counts the calls that a bridge forwards.
type fakeCountingCaller int

// Call implements oncrpc.Caller.
func (p *fakeCountingCaller) Call(_ context.Context, x *oncrpc.Exchange) error {
	*p++
	x.Reply = rpcmsg.AppendProgMismatch(nil, 0, 3, 3) // any reply will do
	return nil
}

// TestVersions checks that a bridge itself rejects NFS versions other than 3, from
// any port, in a reply that names version 3, and that the server sees no such call.
func TestVersions(t *testing.T) {
	for _, vers := range []uint32{0, 2, 4, 5} {
		for _, port := range []uint16{700, 65535} {
			for proc := range uint32(2) { // NULL and COMPOUND
				var server fakeCountingCaller
				b := Bridge{NFS: &server}
				req := oncrpc.Request{
					Msg:  encodeCall(7, nfs3.Program, vers, proc, make([]byte, 64)),
					Peer: &oncrpc.Peer{Network: "tcp", Addr: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port)},
				}
				var rep oncrpc.Reply
				assert.True(t, b.Serve(t.Context(), &req, &rep))
				assert.Equal(t, rpcmsg.AppendProgMismatch(nil, 7, 3, 3), rep.Head)
				assert.Nil(t, rep.Item)
				assert.Zero(t, server)
			}
		}
	}
}

// TestPorts checks that calls in users' names are denied from ports that all
// users may open.
func TestPorts(t *testing.T) {
	for _, tt := range []struct {
		prog, vers, proc uint32
		port             uint16
		pass             bool
	}{
		{nfs3.Program, nfs3.Version, nfs3.ProcGetAttr, 1023, true},
		{nfs3.Program, nfs3.Version, nfs3.ProcGetAttr, 1024, false},
		{nfs3.Program, nfs3.Version, nfs3.ProcGetAttr, 65535, false},
		{nfs3.Program, nfs3.Version, nfs3.ProcNull, 65535, true},
		{nfsacl.Program, nfsacl.Version, nfsacl.ProcGetACL, 65535, false},
		{nfsacl.Program, nfsacl.Version, nfsacl.ProcGetACL, 1, true},
		{mount3.Program, mount3.Version, mount3.ProcMnt, 700, true},
		{mount3.Program, mount3.Version, mount3.ProcMnt, 65535, false},
		{mount3.Program, 1, mount3.ProcMnt, 65535, false},
		{mount3.Program, mount3.Version, mount3.ProcUmnt, 65535, false},
		{mount3.Program, mount3.Version, mount3.ProcExport, 65535, true},
		{mount3.Program, mount3.Version, mount3.ProcDump, 65535, true},
	} {
		for _, insecure := range []bool{false, true} {
			var server fakeCountingCaller
			var log strings.Builder
			b := Bridge{NFS: &server, Insecure: insecure, Log: slog.New(slog.NewTextHandler(&log, nil))}
			req := oncrpc.Request{
				Msg:  encodeCall(7, tt.prog, tt.vers, tt.proc, make([]byte, 64)),
				Peer: &oncrpc.Peer{Network: "tcp", Addr: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), tt.port)},
			}
			var rep oncrpc.Reply
			assert.True(t, b.Serve(t.Context(), &req, &rep))
			rep.DropItem()
			if tt.pass || insecure {
				assert.EqualValues(t, 1, server, "%+v", tt)
				assert.Empty(t, log.String())
				continue
			}
			assert.Zero(t, server, "%+v", tt)
			assert.Equal(t, rpcmsg.AppendAuthError(nil, 7, rpcmsg.AuthTooWeak), rep.Head)
			assert.True(t, rep.NoReplay)
			assert.Regexp(t, `192\.0\.2\.1:.*--insecure`, log.String())
		}
	}
}

// A fakeLine is a Line that rejects all calls.
type fakeLine struct{}

func (fakeLine) CallXID(_ context.Context, x *oncrpc.Exchange, xid uint32) error {
	x.Reply = rpcmsg.AppendAuthError(nil, xid, rpcmsg.AuthBadCred)
	return nil
}

func (fakeLine) Close() error { return nil }

// TestSignedPorts checks that users of a host, who may open all but the reserved
// ports, cannot use up the connections for the host's mounts, which use these.
func TestSignedPorts(t *testing.T) {
	b := Bridge{Log: slog.New(slog.DiscardHandler), Dial: func(context.Context) (Line, error) { return fakeLine{}, nil }}
	passes := func(port uint16) bool {
		req := oncrpc.Request{
			Msg:  withGSSCred(encodeCall(7, nfs3.Program, nfs3.Version, nfs3.ProcNull, nil)),
			Peer: &oncrpc.Peer{Network: "tcp", Addr: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)},
		}
		var rep oncrpc.Reply
		return b.Serve(t.Context(), &req, &rep)
	}
	for port := range uint16(maxOwnConns / 2) {
		assert.True(t, passes(40000+port))
	}
	assert.False(t, passes(50000))
	for port := range uint16(maxOwnConns / 2) {
		assert.True(t, passes(700+port))
	}
	assert.False(t, passes(1023))
}
