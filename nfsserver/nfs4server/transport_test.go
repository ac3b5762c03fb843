package nfs4server

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestWrongTransport checks that an unencrypted call fails with NFS4ERR_WRONGSEC where it would
// use an export that requires encrypted connections, and that a session made over TLS does not
// help on an unencrypted connection (R9289-4.2-3, R9289-5.1.3-1). The log names the client, the
// export and what it requires.
func TestWrongTransport(t *testing.T) {
	fs := mem.New(mem.Options{Size: 1 << 20})
	_, err := fs.Create(context.Background(), &vfs.Cred{}, fs.Root(), "f", vfs.CreateHow{Attr: vfs.SetAttr{Mode: new(uint32(0o666))}})
	require.NoError(t, err)
	inside := newTestServer(t, newExport(t, fs, "/x", "rw,xprtsec=mtls"))
	inside.peer.Security = &oncrpc.Security{Mutual: true}
	inside.connectClient()
	var dir, file nfs4.HandleRes
	st, _ := inside.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpGetFH, &void, &dir})
	require.Equal(t, nfs4.OK, st)
	x := append(nfs4.FH(nil), dir.Object...)
	st, _ = inside.sendSteps(putRootStep(), lookupStep("x"), lookupStep("f"), attrs, step{nfs4.OpGetFH, &void, &file})
	require.Equal(t, nfs4.OK, st)
	f := append(nfs4.FH(nil), file.Object...)

	for have, security := range map[string]*oncrpc.Security{"none": nil, "tls": {Suite: "TLS_AES_128_GCM_SHA256"}} {
		inside.log.Reset()
		for _, network := range []string{"tcp", "rdma"} {
			g := inside.onConnection("192.0.2.1:701", network)
			g.peer.Security = security
			g.connectAs(network + " by " + security.String())
			for _, tt := range []struct {
				name  string
				steps []step
				want  nfs4.Status
			}{
				{"the root, which is no export", []step{putRootStep(), attrs}, nfs4.OK},
				{"LOOKUP of the export", []step{putRootStep(), lookupStep("x"), attrs}, nfs4.ErrWrongSec},
				{"PUTFH", []step{putStep(f), attrs}, nfs4.ErrWrongSec},
				{"LOOKUP in the export", []step{putStep(x), lookupStep("f"), attrs}, nfs4.ErrWrongSec},
				{"OPEN of a name", []step{putStep(x), openStep(nfs4.ClaimNull, "f")}, nfs4.ErrWrongSec},
				{"OPEN of a filehandle", []step{putStep(f), openStep(nfs4.ClaimFH, "")}, nfs4.ErrWrongSec},
				{"SAVEFH, RESTOREFH", []step{putStep(f), save, putRootStep(), restore, attrs}, nfs4.ErrWrongSec},
				{"SECINFO", []step{putRootStep(), secInfoStep("x")}, nfs4.OK},
				{"SECINFO_NO_NAME", []step{putStep(x), secInfoNoNameStep(nfs4.SecInfoCurrentFH)}, nfs4.OK},
			} {
				st, _ := g.sendSteps(tt.steps...)
				assert.Equal(t, tt.want, st, "%s by %s, %s", tt.name, network, security.String())
			}
			for op := range operations {
				o := operations[op]
				if _, last, _ := nfs4.Op(op).Minors(); o.execute == nil || o.flags&needsCurrent == 0 || o.flags&checksSecurity != 0 || last == nfs4.Minor0 {
					continue
				}
				st, _ := g.sendSteps(putStep(f), step{nfs4.Op(op), &void, newStatusRes()})
				assert.Equal(t, nfs4.ErrWrongSec, st, nfs4.Op(op))
			}
		}
		assert.Contains(t, inside.log.String(), "export=/x client=192.0.2.1 over=tcp xprtsec="+have+" takes=mtls")
	}
	// The same session on an unencrypted connection.
	outside := inside.onConnection("192.0.2.1:702", "tcp")
	st, _ = outside.sendSteps(putStep(f), attrs)
	assert.Equal(t, nfs4.ErrWrongSec, st)
}
